"""Frozen features of photos and texts: anchored ICT beside logistic regression, a graph and forests.

    python benchmarks/features.py --data DIR --features DIR --out results/features.json [--sets ...] [--fast]

CIFAR-10 (its official files in --data) by EfficientNet-lite0; descriptions of Debian's packages, whose section is to be
guessed, by all-MiniLM-L6-v2 and by TF-IDF with an SVD. Features are made once and kept in --features, as float16. Some
cells have skewed classes, ten to one, in the pool as among the labels. An interrupted run goes on.
"""

import subprocess
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
from vectors import Array, Sets, parser, run

from ict.backbones import PHOTOS, TEXTS, open_backbone
from ict.backbones.word_bag import fit_words
from ict.data.cifar10 import cifar10

_PHOTOS, _TEXTS, _SECTIONS = 8_000, 4_000, 10


def photos(data: Path) -> tuple[Array, Array]:
    train = cifar10(data, 0).train
    rows = np.sort(np.random.default_rng(0).permutation(len(train))[:_PHOTOS])
    backbone = open_backbone(PHOTOS, "cpu")
    images = train.x[rows].permute(0, 2, 3, 1).numpy()
    parts = [backbone.embed([backbone.prepare(image) for image in images[i : i + 512]]) for i in range(0, _PHOTOS, 512)]
    return np.concatenate(parts), train.y[rows].numpy()


def descriptions() -> tuple[list[str], Array]:
    """Of packages in the most frequent sections, each text once."""
    listing = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    sections: dict[str, str] = {}
    for package in listing.split("\n\n"):
        fields, name = dict[str, str](), ""
        for line in package.splitlines():
            if line.startswith(" "):
                fields[name] += "\n" + line.strip()
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if "Section" in fields and (text := fields.get("Description", fields.get("Description-en"))):
            sections[text] = fields["Section"].split("/")[-1]
    names = [name for name, _ in Counter(sections.values()).most_common(_SECTIONS)]
    items = sorted((text, section) for text, section in sections.items() if section in names)
    chosen = [items[i] for i in np.sort(np.random.default_rng(0).permutation(len(items))[:_TEXTS])]
    return [text for text, _ in chosen], np.array([names.index(section) for _, section in chosen])


def texts(pretrained: bool) -> tuple[Array, Array]:
    words, labels = descriptions()
    backbone = open_backbone(TEXTS, "cpu") if pretrained else fit_words(words)
    return backbone.embed([backbone.prepare(text) for text in words]), labels


def kept(folder: Path, name: str, data: Path) -> tuple[Array, Array]:
    """Features and labels from the file of that name, which is made if need be."""
    path = folder / f"{name}.npz"
    if not path.exists():
        features, labels = photos(data) if name == "photos" else texts(name == "texts")
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, features=features.astype(np.float16), labels=labels.astype(np.uint8))
    with np.load(path, allow_pickle=False) as content:
        return content["features"].astype(np.float32), content["labels"].astype(np.int64)


def main() -> None:
    options = parser(__doc__.splitlines()[0], "features", [1, 4, 10, 40])
    options.add_argument("--data", type=Path, default=Path("data"))
    options.add_argument("--features", type=Path, default=Path("runs/features"))
    arguments = options.parse_args()
    names = arguments.sets.split(",") if arguments.sets else ["photos", "texts", "words"]
    sets: Sets = {name: partial(kept, arguments.features, name, arguments.data) for name in names}
    run("features", sets, arguments.labels, arguments, skewed=(False, True))


if __name__ == "__main__":
    main()
