"""The guide docs/own-data.md: every block runs in order on made-up data, and prints what the page shows."""

from pathlib import Path

import guide
import guide_data
import pytest

PAGE = guide.GUIDE.read_text()


@pytest.mark.xdist_group("own data")
def test_every_block_runs_and_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    guide_data.make(tmp_path)
    shown, printed = (guide.outline(page).splitlines() for page in (PAGE, guide.played(PAGE)))
    assert printed == shown


def test_the_comparison_sees_another_word_and_passes_over_other_numbers() -> None:
    page = "```console\n$ ict fit photos\n97.5% on 40 labels, anchored was chosen\n1,a.jpg,,zero\n```"
    assert guide.outline(page) == guide.outline(page.replace("97.5", "3"))
    assert guide.outline(page) == guide.outline(page.replace("anchored", "logistic").replace(",zero", ",one"))
    assert guide.outline(page) != guide.outline(page.replace("labels", "rows"))


def test_a_block_that_cannot_be_run_is_refused() -> None:
    with pytest.raises(ValueError, match="kind sh"):
        guide.played("```sh\nict fit photos\n```")
