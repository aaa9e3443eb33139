"""The made-up data of docs/own-data.md, and the person who labels them: photos of digits, messages, a table."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

_DIGITS = ("zero", "one", "two")
_TOPICS = {
    "billing": "invoice payment refund card charge price month twice",
    "delivery": "parcel late courier address box arrived street tracking",
    "login": "password account reset email screen locked code sign",
}
_COMMON = ["the", "a", "my", "i", "was", "and", "it", "please", "when", "on", "with", "for", "not", "today", "again"]
_PLANS = ("basic", "family", "team")


def make(folder: Path) -> None:
    """photos/ without labels and new/ with more of them, messages/ with class folders, customers.csv with a column."""
    images, truth = load_digits(return_X_y=True)
    rows = np.flatnonzero(truth < len(_DIGITS))
    for n, row in enumerate(rows[:130]):
        _photo(images[row]).save(_new(folder / ("photos" if n < 120 else "new") / f"{truth[row]}{n:03}.jpg"))
    draws = np.random.default_rng(0)
    for n in range(120):
        topic = tuple(_TOPICS)[n % 3]
        home = folder / "messages" / (topic if n < 30 else "unlabeled")
        _new(home / f"{n:03}.txt").write_text(_message(draws, topic) + "\n")
    for name, n_rows, n_labeled in (("customers.csv", 150, 40), ("more.csv", 3, 0)):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(_customers(draws, n_rows, n_labeled))


def fill_in(path: Path) -> None:
    """Label up to 20 examples, as a person does who looks at the photos: the first digit of a name is the truth."""
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines[:20]:
        line["label"] = _DIGITS[int(Path(line["example"]).name[0])]
    with path.open("w", newline="") as file:
        out = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        out.writeheader()
        out.writerows(lines)


def _photo(digit: np.ndarray) -> Image.Image:
    gray = np.minimum(digit.reshape(8, 8) * 16, 255)
    colored = np.stack([gray, np.roll(gray, 1, axis=0), 255 - gray], axis=-1).astype(np.uint8)
    photo = Image.new("RGB", (200, 160), "gray")
    photo.paste(Image.fromarray(colored).resize((160, 160)), (20, 0))
    return photo


def _message(draws: np.random.Generator, topic: str) -> str:
    words = _TOPICS[topic].split()
    return " ".join(str(draws.choice(words if draws.random() < 0.35 else _COMMON)) for _ in range(20))


def _customers(draws: np.random.Generator, n: int, n_labeled: int) -> list[list[str]]:
    """A table with numbers, gaps, categories and dates; who stays has a long history or a large plan."""
    lines = [["customer", "plan", "visits", "age", "since", *(["label"] if n_labeled else [])]]
    for row in range(n):
        plan, visits, age = int(draws.integers(3)), int(draws.integers(0, 30)), int(draws.integers(18, 80))
        since = f"20{draws.integers(10, 26)}-{draws.integers(1, 13):02}-{draws.integers(1, 28):02}"
        label = "stays" if visits + 6 * plan + draws.normal(scale=3) > 20 else "leaves"
        line = [f"C{1000 + row}", _PLANS[plan], str(visits), str(age) if draws.random() < 0.9 else "", since]
        lines.append([*line, *([label if row < n_labeled else ""] if n_labeled else [])])
    return lines


def _new(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
