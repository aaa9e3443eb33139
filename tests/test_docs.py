"""The documents' links lead somewhere, and the index names every page."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "tests", "tools", "benchmarks", "research", "examples")
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("research/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", page.read_text())
    gone = [t for t in targets if not t.startswith("http") and not (page.parent / t).exists()]
    assert not gone


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_files_that_a_page_names_exist(page: Path) -> None:
    """With their folders as far as the page gives them; a name alone, such as mine.py, may be the reader's own file."""
    files = [f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    named = set(re.findall(r"[\w./-]*/\w+\.py\b", page.read_text()))
    assert [name for name in named if not any(file.endswith("/" + name.lstrip("./")) for file in files)] == []


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    assert [
        page.name for page in ROOT.glob("docs/*.md") if page.name != "README.md" and f"]({page.name})" not in index
    ] == []


def test_the_index_of_methods_has_the_errors_of_the_tuned_comparison() -> None:
    """Not those of the variants' file, which has some of the same methods."""
    page = (ROOT / "docs/methods/README.md").read_text()
    for row in json.loads((ROOT / "results/compare-digits-100.json").read_text())["rows"]:
        assert re.search(rf"^\| {row['method']} \|.*\| {100 * fmean(row['test_error']):.2f} ±", page, re.MULTILINE), row
