"""The numbers in the paper: its three tables and the ablations in its text, row by row.

A row names the method of its recipes. So these lines give both a recipe its reported number and a table its rows.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ict.recipes.recipe import Reported

Number = tuple[float, float] | float | None  # mean and standard deviation, only a mean, or nothing


@dataclass(frozen=True)
class Row:
    title: str  # as the paper prints it
    cells: tuple[str | None, ...]  # the recipe of each column


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    fast: str  # the fast recipe for its rows of ICT, in cells that have one


class _Printed(NamedTuple):
    title: str
    columns: dict[str, str]  # from the start of the recipes' names to the column's heading
    rows: dict[tuple[str, str], tuple[Number, ...]]  # (title, method): test error in percent
    fast: str = "ict-fast"


_PRINTED = {
    "cifar10": _Printed(
        "Error rates (%) on CIFAR-10 using CNN-13",
        {f"cifar10-{n}": f"{n} labels" for n in (1000, 2000, 4000)},
        {
            ("Supervised", "supervised"): ((39.95, 0.75), (31.16, 0.66), (21.75, 0.46)),
            ("Supervised (Mixup)", "mixup"): ((36.48, 0.15), (26.24, 0.46), (19.67, 0.16)),
            ("Supervised (Manifold Mixup)", "manifold-mixup"): ((34.58, 0.37), (25.12, 0.52), (18.59, 0.18)),
            ("Π model", "pi"): ((31.65, 1.20), (17.57, 0.44), (12.36, 0.31)),
            ("TempEns", "temporal-ensembling"): ((23.31, 1.01), (15.64, 0.39), (12.16, 0.24)),
            ("Mean Teacher", "mean-teacher"): ((21.55, 1.48), (15.73, 0.31), (12.31, 0.28)),
            ("VAT", "vat"): (None, None, 11.36),
            ("VAT+Ent", "vat-ent"): (None, None, 10.55),
            ("VAdD", "vadd-qe"): (None, None, (11.32, 0.11)),
            ("SNTG", "sntg-te"): ((18.41, 0.52), (13.64, 0.32), (10.93, 0.14)),
            ("MT + fast-SWA", "mt-fast-swa"): (15.58, 11.02, 9.05),
            ("ICT", "ict"): ((15.48, 0.78), (9.26, 0.09), (7.29, 0.02)),
        },
    ),
    "svhn": _Printed(
        "Error rates (%) on SVHN using CNN-13",
        {f"svhn-{n}": f"{n} labels" for n in (250, 500, 1000)},
        {
            ("Supervised", "supervised"): ((40.62, 0.95), (22.93, 0.67), (15.54, 0.61)),
            ("Supervised (Mixup)", "mixup"): ((33.73, 1.79), (21.08, 0.61), (13.70, 0.47)),
            ("Supervised (Manifold Mixup)", "manifold-mixup"): ((31.75, 1.39), (20.57, 0.63), (13.07, 0.53)),
            ("Π model", "pi"): ((9.93, 1.15), (6.65, 0.53), (4.82, 0.17)),
            ("TempEns", "temporal-ensembling"): ((12.62, 2.91), (5.12, 0.13), (4.42, 0.16)),
            ("Mean Teacher", "mean-teacher"): ((4.35, 0.50), (4.18, 0.27), (3.95, 0.19)),
            ("VAT", "vat"): (None, None, 5.42),
            ("VAT+Ent", "vat-ent"): (None, None, 3.86),
            ("VAdD", "vadd-kl"): (None, None, (4.16, 0.08)),
            ("SNTG", "sntg-mt"): ((4.29, 0.23), (3.99, 0.24), (3.86, 0.27)),
            ("ICT", "ict"): ((4.78, 0.68), (4.23, 0.15), (3.89, 0.04)),
        },
    ),
    "wrn": _Printed(
        "Error rates (%) on CIFAR-10 and SVHN using WRN-28-2",
        {"cifar10-4000-wrn": "CIFAR-10, 4000 labels", "svhn-1000-wrn": "SVHN, 1000 labels"},
        {
            ("Supervised", "supervised"): ((20.26, 0.38), (12.83, 0.47)),
            ("Mean Teacher", "mean-teacher"): ((15.87, 0.28), (5.65, 0.47)),
            ("VAT", "vat"): ((13.86, 0.27), (5.63, 0.20)),
            ("VAT-EM", "vat-ent"): ((13.13, 0.39), (5.35, 0.19)),
            ("ICT", "ict"): ((7.66, 0.17), (3.53, 0.07)),
        },
    ),
    "ablations": _Printed(
        "Error rates (%) of ICT and its ablations on CIFAR-10 using CNN-13",
        {f"cifar10-{n}": f"{n} labels" for n in (1000, 2000, 4000)},
        {
            ("ICT", "ict"): (None, None, None),  # in the first table
            ("without the mean teacher", "ict-no-teacher"): ((19.56, 0.56), (14.35, 0.15), (11.19, 0.14)),
            ("without the mixup supervised loss", "ict-plain-supervised"): ((14.86, 0.39), (9.02, 0.12), (8.23, 0.22)),
        },
        fast="ict-fast-60s",
    ),
}


def _reported(number: tuple[float, float] | float) -> Reported:
    return Reported(*number) if isinstance(number, tuple) else Reported(number)


TABLES = {
    name: Table(
        title,
        tuple(columns.values()),
        tuple(Row(row, tuple(f"{cell}/{method}" for cell in columns)) for row, method in rows),
        fast,
    )
    for name, (title, columns, rows, fast) in _PRINTED.items()
}
REPORTED: dict[str, Reported] = {
    f"{cell}/{method}": _reported(number)
    for printed in _PRINTED.values()
    for (_, method), numbers in printed.rows.items()
    for cell, number in zip(printed.columns, numbers, strict=True)
    if number is not None
}
