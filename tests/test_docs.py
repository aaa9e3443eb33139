"""The documents' links lead somewhere, and the index names every page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("research/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", page.read_text())
    gone = [t for t in targets if not t.startswith("http") and not (page.parent / t).exists()]
    assert not gone


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    assert [
        page.name for page in ROOT.glob("docs/*.md") if page.name != "README.md" and f"]({page.name})" not in index
    ] == []
