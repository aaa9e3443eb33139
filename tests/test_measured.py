"""docs/results.md and the README's opening, from made-up runs: any subset of the files, and numbers counted by hand."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import measured
import numpy as np
import published
import pytest
import result_files
from PIL import Image

from ict.recipes import RECIPES

FAST, HEADLINE_60 = "cifar10-4000/ict-fast", "cifar10-4000/ict-fast-60s"


def write(folder: Path, recipe: str, seed: int, error: float, seconds: float, **changes: Any) -> None:
    resolved = RECIPES[recipe].resolved()
    content = {
        "recipe": recipe,
        "recipe_id": resolved.hash,
        "seed": seed,
        "steps": resolved.train.steps,
        "seconds": seconds,
        "test_error": error,
        "test_error_student": error + 0.01,
        "test_error_teacher": error,
        "test_error_best": error + 0.02,
        "valid_error": error + 0.03,
        "valid_error_best": error + 0.001,
        "partial": False,
        "n_test": 10_000,
        "device": "cuda",
        "machine": "Abacus 9",
        "threads": 1,
        "versions": {"torch": "2"},
        "commit": "abc",
        # every recipe at a time of day of its own, or two would have shared the GPU
        "finished": (
            datetime(2030, 1, seed + 1, 1, tzinfo=UTC) + timedelta(minutes=30 * published.PUBLISHED.index(recipe))
        ).isoformat(),
        # at most 7.29 % for the first time at four tenths of the run, of the teacher: the student is never that good
        "curve": [
            {"step": i, "seconds": seconds * i / 10, "valid_error_student": 0.5, "valid_error_teacher": 0.29 / i}
            for i in range(1, 11)
        ],
        "settings": resolved.to_dict(),
    }
    (folder / f"{recipe.replace('/', '-')}-seed{seed}.json").write_text(json.dumps(content | changes))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stands in for results/h200, with nothing in it but what is known of the authors' program."""
    made = tmp_path / "results/h200"
    made.mkdir(parents=True)
    (made / "authors.json").write_text(json.dumps({"ms": 50, "ms_least": 45, "ms_most": 60, "updates": 144_000}))
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    monkeypatch.setattr(published, "FOLDER", made)
    monkeypatch.setattr(measured, "EVALUATED", tmp_path / "results/evaluated")
    published.read_runs.cache_clear()
    yield made
    published.read_runs.cache_clear()


def block(name: str) -> str:
    published.read_runs.cache_clear()
    return measured.BLOCKS[name]()


def row(markdown: str, recipe: str) -> list[str]:
    (line,) = (
        line for line in markdown.splitlines() if line.startswith(f"| `{recipe}` |") or f"| `{recipe}` |" in line
    )
    return [cell.strip() for cell in line.strip("|").split("|")]


def three_seeds(folder: Path) -> None:
    for seed, error, seconds in ((0, 0.07, 200), (1, 0.08, 220), (2, 0.12, 240)):
        write(folder, FAST, seed, error, seconds)


NAMES = sorted(set(measured.BLOCKS) - {"svhn"})


@pytest.mark.parametrize("name", NAMES)
def test_without_runs_no_number_of_ours_is_claimed(name: str, folder: Path) -> None:
    text = block(name)
    ours = re.sub(r"`[^`]*`|\([^)]*\)|[\d,.]+ ± [\d.]+", "", text)  # without names, and what the paper reports
    if name in ("headline", "curves", "networks", "evaluated", "missing"):
        assert not re.search(r"\d", ours), text
    if name in ("results", "time-to-accuracy", "fair", "curves", "networks", "evaluated"):
        assert published.NOT_RUN in text.lower()
    assert "0.0" not in ours and "nan" not in text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "recipe", ["svhn-1000/ict-fast", "cifar10-4000/ict", "svhn-1000-fair/vat", "cifar10-4000-fair/ict"]
)
def test_any_one_run_is_enough(recipe: str, name: str, folder: Path, tmp_path: Path) -> None:
    write(folder, recipe, 1, 0.25, 100)
    assert block(name)
    measured.draw_pictures(published.read_runs(), tmp_path)
    task = recipe.partition("/")[0]
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == ({f"{task}.png"} if task in published.TASKS else {"results.png"})


def test_the_headline_has_mean_deviation_time_and_the_papers_number(folder: Path) -> None:
    three_seeds(folder)
    write(folder, HEADLINE_60, 0, 0.1, 55)
    text = block("headline")
    # 7, 8 and 12: mean 9, squares 4 + 1 + 9 over 2
    # half an interval: 4.303, Student's t for the two degrees that three runs leave, times 2.65 over the root of 3
    rows = {
        FAST: ["9.00 ± 2.65 (0, 1, 2)", "+1.71 (-4.86 to +8.28)", "no difference shown", "220"],
        HEADLINE_60: ["10.00 (0)", "+2.71", "no interval", "55"],
    }
    for name, numbers in rows.items():
        assert row(text, name) == [f"`{name}`", "7.29 ± 0.02", *numbers]
    assert "Abacus 9, 2030-01-01 to 2030-01-03" in text
    told = block("time-to-accuracy")
    assert "2.0 hours" in told and "50 ms an update (45 to 60) outside" in told and "144,000 updates" in told
    assert "svhn-1000" not in text, "what was not run is left out of the README"


def test_every_seed_is_shown_with_its_file(folder: Path) -> None:
    three_seeds(folder)
    found = row(block("results"), FAST)
    assert found[2:7] == [
        "9.00 ± 2.65 (0, 1, 2)",
        "7.00, 8.00, 12.00",
        "220",
        f"{RECIPES[FAST].train.steps:,}",
        "Abacus 9, 2030-01-01 to 2030-01-03",
    ]
    assert found[7].startswith("[0](../results/h200/cifar10-4000-ict-fast-seed0.json), [1](../")
    assert row(block("results"), "svhn-1000/ict-fast")[1:4] == ["3.89 ± 0.04", published.NOT_RUN, "-"]


def test_seconds_beside_another_run_on_the_gpu_are_marked(folder: Path) -> None:
    """From 12:00 to 12:01, after it to 12:03, and from 12:02:30 to 12:04."""
    day = "2030-01-01T12:0"
    write(folder, HEADLINE_60, 0, 0.08, 60, finished=f"{day}1:00+00:00")
    write(folder, FAST, 0, 0.07, 120, finished=f"{day}3:00+00:00")
    alone = block("results")
    assert row(alone, FAST)[4] == "120" and "shared" not in alone + block("headline")
    write(folder, published.PAPERS_TEXT, 0, 0.08, 90, finished=f"{day}4:00+00:00")
    for name, seconds in ((FAST, "120 (shared)"), (published.PAPERS_TEXT, "90 (shared)"), (HEADLINE_60, "60")):
        assert row(block("results"), name)[4] == row(block("headline"), name)[5] == seconds
    assert 'Seconds that are "shared"' in block("headline") and 'Seconds that are "shared"' in block("results")
    assert "took 90 s, beside other runs" in block("time-to-accuracy")


def test_a_run_of_other_settings_or_with_part_of_the_test_set_does_not_count(folder: Path) -> None:
    write(folder, FAST, 0, 0.01, 10, recipe_id="123456")
    write(folder, HEADLINE_60, 0, 0.01, 10, partial=True)
    assert published.read_runs() == {}


def test_student_and_teacher_last_and_best(folder: Path) -> None:
    three_seeds(folder)
    write(folder, "cifar10-4000/ict-fast-60s-no-teacher", 0, 0.2, 100, test_error_teacher=None)
    found = row(block("networks"), FAST)
    assert found[1:] == ["10.00 ± 2.65", "9.00 ± 2.65", "11.00 ± 2.65", "12.00 ± 2.65", "9.10 ± 2.65"]
    assert row(block("networks"), "cifar10-4000/ict-fast-60s-no-teacher")[2] == "–"


def test_saved_models_are_compared_with_their_runs(folder: Path) -> None:
    three_seeds(folder)
    measured.EVALUATED.mkdir()
    now, before = "2031-01-01T00:00:00+00:00", "2029-01-01T00:00:00+00:00"
    recipe_id = RECIPES[FAST].resolved().hash
    # nothing can be said of a seed that was not run, of another recipe, and of a run that was made again since
    for name, seed, error, by, finished in (
        ("0", 0, 0.0703, recipe_id, now),
        ("1", 1, 0.0799, recipe_id, now),
        ("5", 5, 0.5, recipe_id, now),
        ("other", 2, 0.5, "123456", now),
        ("first", 2, 0.5, recipe_id, before),
    ):
        found = {"recipe": FAST, "recipe_id": by, "seed": seed, "test_error": error, "device": "cpu"}
        (measured.EVALUATED / f"{name}.json").write_text(json.dumps(found | {"finished": finished}))
    told, _, *_, first, second = block("evaluated").splitlines()
    assert "the largest difference is 0.03 points" in told
    assert first == f"| `{FAST}` | 0 | 7.00 (cuda) | 7.03 (cpu) | [file](../results/evaluated/0.json) |"
    assert second == f"| `{FAST}` | 1 | 8.00 (cuda) | 7.99 (cpu) | [file](../results/evaluated/1.json) |"


def test_time_to_accuracy_is_read_off_the_curves(folder: Path) -> None:
    three_seeds(folder)
    write(folder, "svhn-1000/ict-fast", 0, 0.03, 100)
    found = row(block("time-to-accuracy"), FAST)
    compared = "+1.71 (-4.86 to +8.28): no difference shown"
    assert found[0] == "240" and found[4:] == ["220", "9.00 ± 2.65 (0, 1, 2)", compared, "88"]  # .4 of 220
    assert row(block("time-to-accuracy"), "svhn-1000/ict-fast")[6:] == ["-0.89: no interval", "80"]  # .29 / 8 is .036
    never = [{"step": 1, "seconds": 1.0, "valid_error_student": 0.9}]
    write(folder, FAST, 1, 0.08, 220, curve=never)
    assert row(block("time-to-accuracy"), FAST)[-1] == "reached by 2 of 3"
    write(folder, HEADLINE_60, 1, 0.08, 220, curve=never)
    assert row(block("time-to-accuracy"), HEADLINE_60)[-1] == "reached by 0 of 1"


def test_the_comparison_has_what_was_run_beside_what_was_reported(folder: Path) -> None:
    task = "cifar10-4000-fair"
    for method, error in (("supervised", 0.2), ("ict", 0.09), ("pi", 0.12), ("mean-teacher", 0.08), ("vat", 0.105)):
        write(folder, f"{task}/{method}", 0, error, 50)
    write(folder, f"{task}/ict", 1, 0.11, 70)
    text = block("fair")
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if re.match(r"\| \d ", line)]
    assert [(cells[1], cells[2], cells[-1].strip()) for cells in rows] == [
        ("supervised", "20.00", "21.75 ± 0.46"),  # one seed ranks nothing, so it is the paper's order
        ("pi", "12.00", "12.36 ± 0.31"),
        ("mean-teacher", "8.00", "12.31 ± 0.28"),
        ("vat", "10.50", "11.36"),
        ("ict", "10.00 ± 1.41", "7.29 ± 0.02"),
    ]
    assert f"`{task}/mixup`" in text and f"`{task}/pi`" not in text
    assert "Longer than 60 s, a number for each seed: ict (50.0, 70.0 s)." in text
    write(folder, f"{task}/ict", 1, 0.11, 60)
    assert "Longer than" not in block("fair")


def test_ict_is_compared_with_the_method_next_to_it_seed_by_seed(folder: Path) -> None:
    task = "svhn-1000-fair"
    errors = {"ict": (0.05, 0.06, 0.07), "pi": (0.06, 0.08, 0.07), "vat": (0.09, 0.09, 0.09), "mixup": (0.01,)}
    for method, of_method in errors.items():
        for seed, error in enumerate(of_method):
            write(folder, f"{task}/{method}", seed, error, 50)
    text = block("fair")
    # differences of -1, -2 and 0: mean -1, deviation 1, and Student's t for two degrees is 4.303
    assert "ICT's mean error is 1.00 points below that of pi, the best other method with several seeds" in text
    assert "(by seed -1.00, -2.00, +0.00; 95 % interval -3.48 to +1.48)" in text
    assert "number 1" not in text


def test_every_recipe_of_ict_is_compared_with_the_paper(folder: Path) -> None:
    three_seeds(folder)
    assert row(block("against"), FAST)[1:] == [
        "7.29 ± 0.02",
        "9.00 ± 2.65 (0, 1, 2)",
        "+1.71",
        "-4.86 to +8.28",
        "0.379",
        "no difference shown",
        "",
    ]
    for seed in (0, 1, 2):
        write(folder, FAST, seed, 0.06 + seed / 10_000, 100)
        write(folder, HEADLINE_60, seed, 0.08 + seed / 10_000, 100)
        write(folder, "svhn-250/ict-fast", seed, 0.05, 100)
    assert row(block("against"), FAST)[6] == "lower" and row(block("against"), HEADLINE_60)[6] == "higher"
    assert "before: 6.10 (seed 0: 4.91; seed 1: 8.74; seed 2: 4.66)" in row(block("against"), "svhn-250/ict-fast")[7]


def test_what_is_above_the_papers_number_is_spoken_of() -> None:
    """On the page as it is: each recipe whose mean is above the paper's has a line of its own below the table."""
    page = (result_files.ROOT / "docs/results.md").read_text()
    table, told = re.findall("<!-- begin against -->(.*)<!-- end against -->(.*?)\n## ", page, re.DOTALL)[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    listed = {cells[0].strip("| `") for cells in rows if cells[3].startswith("+")}
    assert listed and listed == set(re.findall(r"^- `(.+?)`", told, re.MULTILINE))


def test_the_papers_tables_have_the_runs(folder: Path) -> None:
    three_seeds(folder)
    write(folder, "cifar10-4000/ict", 0, 0.075, 500)
    line = next(line for line in block("cells").splitlines() if line.startswith("| ICT |"))
    assert line.endswith("| 7.29 ± 0.02 | 7.50 (1) | 9.00 ± 2.65 (3; 220 s) |")
    assert block("cells").count("### Error rates") == 4


def test_the_cost_of_running_all_of_it_again_is_counted(folder: Path) -> None:
    assert "GPU hours" not in block("rerun")
    write(folder, FAST, 0, 0.07, 1000)
    write(folder, FAST, 1, 0.07, 2000)
    write(folder, HEADLINE_60, 0, 0.07, 900)
    text = block("rerun")
    # three seeds of 1500 s and of 900 s; 3900 s were spent
    assert f"The 2 of these {len(published.PUBLISHED)} recipes that have been run take at most 2.0 GPU hours" in text
    assert text.endswith("took 1.1. What the others take is not measured yet.")
    day = "2030-02-01T12:"
    write(folder, FAST, 0, 0.07, 1000, finished=f"{day}20:00+00:00")
    write(folder, FAST, 1, 0.07, 2000, finished=f"{day}53:20+00:00")  # begins where seed 0 ends
    write(folder, HEADLINE_60, 0, 0.07, 540, finished=f"{day}23:00+00:00")
    assert "took 0.8. What" in block("rerun"), "fifty minutes, whatever ran beside"
    words = text.split("```")[1].removeprefix("sh").replace("\\\n", " ").split()
    assert words[:2] == ["ict", "trials"] and set(published.PUBLISHED) < set(words)
    for recipe in published.PUBLISHED:
        write(folder, recipe, 0, 0.07, 100)
    assert block("rerun").partition("```\n\n")[2].startswith("These recipes take at most")


def test_what_is_missing_is_named(folder: Path) -> None:
    write(folder, FAST, 1, 0.07, 100)
    for recipe in published.PUBLISHED:
        if recipe not in (FAST, "svhn-250/ict-fast"):
            write(folder, recipe, 0, 0.07, 100)
            if recipe != published.PAPERS_TEXT:
                write(folder, recipe, 1, 0.07, 100)
                write(folder, recipe, 2, 0.07, 100)
    assert block("missing") == f"`svhn-250/ict-fast`, `{FAST}` with seed 0, 2."
    write(folder, "svhn-250/ict-fast", 0, 0.07, 100)
    three_seeds(folder)
    assert block("missing") == "`svhn-250/ict-fast` with seed 1, 2."
    for seed in (1, 2):
        write(folder, "svhn-250/ict-fast", seed, 0.07, 100)
    assert block("missing") == "Nothing."
    assert block("rerun").endswith("."), "of what was all run nothing is said to be unknown"
    assert "not measured" not in block("rerun")


def test_the_picture_of_the_curves_has_a_color_for_each_recipe(folder: Path, tmp_path: Path) -> None:
    three_seeds(folder)
    write(folder, HEADLINE_60, 0, 0.1, 55)
    write(folder, "svhn-1000/ict-fast", 0, 0.1, 200)
    measured.draw_pictures(published.read_runs(), tmp_path)
    with Image.open(tmp_path / "results.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    left, right = pixels[:, : pixels.shape[1] // 2], pixels[:, pixels.shape[1] // 2 :]
    # C0 and C1, a little transparent on white
    blue, orange = [98, 159, 202], [255, 165, 86]
    for half, colors in ((left, (blue, orange)), (right, (blue,))):
        for color in colors:
            assert (np.abs(half - color).sum(2) < 30).sum() > 50
    assert (np.abs(right - orange).sum(2) < 30).sum() == 0
