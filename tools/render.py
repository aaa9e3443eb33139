"""Write the numbers of results/*.json into the README and the docs, between <!-- begin NAME --> and <!-- end NAME -->.

    python tools/render.py [--check]

No number there is typed by hand. Pictures of the runs in results/h200 are drawn too. With --check nothing is written
and the exit code says whether the texts are current.
"""

import re
import sys
from collections.abc import Callable
from math import log10
from statistics import fmean, stdev
from typing import Any

import backbone_tables
import claim_tables
import claims
import labeling_tables
import measured
import on_a_cpu
import on_auto
import on_columns
import on_vectors
import performance
import published
import research_log
import summary
from result_files import ROOT, origin, read

from ict.paper import ranking
from ict.paper.demo import table as demo_table
from ict.paper.table import markdown

DOCUMENTS = (
    "README.md",
    "docs/claims.md",
    "docs/moons.md",
    "docs/comparison.md",
    "docs/performance.md",
    "research/LOG.md",
    "docs/backbones.md",
    "docs/labeling.md",
    "docs/own-data.md",
    "docs/scaling.md",
    "docs/tables.md",
    "docs/auto.md",
    "docs/results.md",
)


def cell(result: dict[str, Any], recipe: str) -> str:
    (errors,) = ([100 * e for e in row["test_error"]] for row in result["rows"] if row["recipe"] == recipe)
    return f"{fmean(errors):.2f} ± {stdev(errors):.2f} %"


def gives() -> str:
    """The README's first table: accuracy beside what scikit-learn gives for the same labels."""
    photos, pool = backbone_tables.means("cifar10", labels=10), read("backbones")["pool"]
    tables, digits = on_vectors.means("tables", labels=5), read("demo-10")

    def right(recipe: str) -> float:
        (errors,) = (row["test_error"] for row in digits["rows"] if row["recipe"] == recipe)
        return 100 * (1 - fmean(errors))

    runs = {len(row["test_error"]) for row in digits["rows"]}
    seeds = runs | {read("backbones")["seeds"], len({cell["seed"] for cell in read("tables")["cells"]})}
    rows = [
        [
            f"photos: CIFAR-10, 10 labels a class, {pool:,} photos",
            f"logistic regression: {photos['pixels']:.1f} on pixels, {photos['features']:.1f} on pretrained features",
            f"{photos['anchored']:.1f}",
        ],
        [
            f"tables: the mean of {tables['sets']:.0f} sets, 5 labels a class",
            f"random forest {tables['forest']:.1f}, logistic regression {tables['logistic']:.1f}",
            f"{tables['anchored']:.1f}",
        ],
        [
            "pixels alone: handwritten digits, 10 labels a class",
            f"LabelSpreading {right('LabelSpreading'):.1f}",
            f"{right('digits-100/ict'):.1f}",
        ],
    ]
    return (
        f"{markdown(['accuracy in percent', 'scikit-learn', '`ict`'], rows)}\n\n"
        f"Means over {min(seeds)} to {max(seeds)} seeds, on sets that the defaults were chosen with. "
        f"{backbone_tables.fit_of_files()}. "
        "Seeds, machines, intervals and where it loses: [backbones](docs/backbones.md), [tables](docs/tables.md), "
        "[digits](docs/comparison.md)."
    )


def demo() -> str:
    three, ten, dropout, other = (read(name) for name in ("demo", "demo-10", "demo-dropout", "demo-other"))
    seconds = three["seconds_a_run"]["digits-100/ict"]
    rate = dropout["recipes"]["digits-100/ict"]["network"]["dropout"]
    return (
        f"{demo_table(three)}\n\n"
        f"Seeds {three['seeds'][0]} to {three['seeds'][-1]}, {three['steps']} updates each, {seconds:.0f} s for an ICT "
        f"run; {origin(three)}. Over ten seeds: supervised {cell(ten, 'digits-100/supervised')}, "
        f"LabelSpreading {cell(ten, 'LabelSpreading')}, ICT {cell(ten, 'digits-100/ict')}. "
        f"On another processor ({other['machine']}), which rounds otherwise, the first three seeds give: supervised "
        f"{cell(other, 'digits-100/supervised')}, ICT {cell(other, 'digits-100/ict')}. "
        f"The network has no dropout, as in the paper; with {rate} and the same settings, seeds 0 to 2: supervised "
        f"{cell(dropout, 'digits-100/supervised')}, ICT {cell(dropout, 'digits-100/ict')}. "
        "Files: [demo.json](../results/demo.json), [demo-10.json](../results/demo-10.json), "
        "[demo-other.json](../results/demo-other.json), [demo-dropout.json](../results/demo-dropout.json)."
    )


def successes(result: dict[str, Any], recipe: str, first: int | None = None) -> tuple[int, int, float]:
    """Seeds that succeed, seeds tried, mean accuracy after the last update; of the first seeds or of all."""
    last = [values[-1] for values in result["accuracy"][recipe].values()][:first]
    return sum(value >= result["success"] for value in last), len(last), fmean(last)


def moons_table() -> str:
    sharpened, plain = read("moons"), read("moons-plain")
    lines = [
        "| recipe | mean right after 1000 updates | at least 95 % | of seeds 0 to 9 |",
        "|---|---|---|---|",
    ]
    for result, recipe in (
        (sharpened, "moons/supervised"),
        (plain, "moons/ict"),
        (sharpened, "moons/ict-sharpened"),
    ):
        reached, tried, mean = successes(result, recipe)
        ten, _, _ = successes(result, recipe, 10)
        lines.append(f"| `{recipe}` | {mean:.1%} | {reached} of {tried} seeds | {ten} of 10 |")
    files = "[results/moons.json](../results/moons.json), [results/moons-plain.json](../results/moons-plain.json)"
    return "\n".join(lines) + f"\n\nSeeds 0 to {tried - 1}; {origin(sharpened)}. Files: {files}."


def cpu() -> str:
    result = read("cpu")
    return (
        f"An ICT update on digits costs {result['ratio']:.2f} times as much through the engine as in the single file "
        f"({origin(result)}; `benchmarks/cpu.py`)."
    )


def comparison() -> str:
    result = read("compare-digits-100")
    minutes = sum(second for row in result["rows"] for second in row["seconds"]) / 60
    image = 100 / result["n_test"]
    grids = [grid for of_method in result["tuning"]["methods"].values() for grid in of_method]
    tried = sum(len(grid["tried"]) for grid in grids)
    at_edge = sum(grid["at_edge"] for grid in grids)
    return (
        f"{ranking.table(result)}\n\n"
        f"{tried} values were tried; {at_edge} of {len(grids)} chosen ones lie at the edge of their grid. The tested "
        f"runs took {minutes:.0f} minutes together, several at a time on one device, so their seconds are those of "
        f"runs beside others. A test set has {result['n_test']} images, so one image is {image:.2f} points. File: "
        "[compare-digits-100.json](../results/compare-digits-100.json)."
    )


def variants() -> str:
    return ranking.table(read("compare-digits-100-variants"))


def derivative() -> str:
    """VAT by the derivative, and by the difference on the same machine."""
    tables = {way: ranking.table(read(f"compare-digits-100-{way}")) for way in ("derivative", "difference")}
    return "\n\n".join(f"By the {way}:\n\n{text}" for way, text in tables.items())


def estimator() -> str:
    result = read("estimator")
    n_seeds = len(result["rows"][0]["accuracy"])
    lines = [
        "| estimator | data | labels a class | accuracy | worst seed | seconds a fit |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        mean, worst = f"{fmean(row['accuracy']):.1%}", f"{min(row['accuracy']):.1%}"
        lines.append(
            f"| {row['estimator']} | {row['data']} | {row['labels']} | {mean} | {worst} | {row['seconds']:.0f} |"
        )
    return "\n".join(lines) + (
        f"\n\nTest accuracy on 30 % held out, mean over {n_seeds} seeds, all settings at their defaults; "
        f"{origin(result)}. File: [estimator.json](../results/estimator.json), written by "
        f"`benchmarks/estimator.py`.\n\n{graph()}"
    )


def example() -> str:
    return f"```\n{(ROOT / 'results/digits_four_labels.txt').read_text().strip()}\n```"


def graph() -> str:
    result = read("graph")
    return (
        f"Graph propagation over {result['rows']:,} rows of {result['features']} features takes "
        f"{result['fit_seconds']:.0f} s and {result['peak_gigabytes']:.1f} GB "
        "([graph.json](../results/graph.json), `benchmarks/graph.py`)."
    )


def ranks() -> str:
    result = read("ranks")
    times = result["milliseconds"]
    tasks = [task for task in times["1 rank"] if task != "message"]
    lines = [f"| ms an update | {' | '.join(tasks)} |", f"|---|{'---|' * len(tasks)}"]
    for version, of in times.items():
        cells = (f"{of[task]:.1f} ({times['1 rank'][task] / of[task]:.2f} times as fast)" for task in tasks)
        lines.append(f"| {version} | {' | '.join(cells)} |")
    message = times["2 ranks"]["message"]
    return "\n".join(lines) + (
        "\n\nICT at 100 labeled and 100 unlabeled examples in all, one thread a rank, medians of "
        f"{result['rounds']} rounds. A message as long as CNN-13's gradient ({result['message_megabytes']} MB) takes "
        f"two ranks {message:.1f} ms by way of the loopback device. The machine has two cores, which other work shared "
        f"at the time: {origin(result)}. File: [ranks.json](../results/ranks.json), written by `benchmarks/ranks.py`."
    )


def shards() -> str:
    result = read("shards")
    cold, warm = (f"{result[f'images_a_second_{how}']:,}" for how in ("cold", "warm"))
    return (
        f"{result['images']:,} made-up images of 32x32 pixels ({result['gigabytes']} GB in {result['shards']} shards, "
        f"written in {result['seconds_to_write']:.0f} s) train with at most "
        f"**{result['anonymous_gigabytes_at_most']:.2f} GB** of memory that belongs to no file, "
        f"{result['anonymous_gigabytes_before']:.2f} GB of it torch itself. Fitting the input scale reads everything "
        f"twice, so the first update comes after {result['seconds_to_prepare']:.0f} s. Batches are read at "
        f"{cold} images a second from the disk and at {warm} from the page cache. {origin(result)}. "
        "File: [shards.json](../results/shards.json), written by `benchmarks/shards.py`."
    )


IMAGE = 3 * 32 * 32  # bytes
SIZES = (10**6, 10**8, 10**9)  # unlabeled images
GPUS = (1, 64, 256)  # for each size
PASSES = 10  # over the unlabeled images
BETWEEN_GPUS, BETWEEN_MACHINES = 200e9, 25e9  # bytes a second that an all-reduce gets: inside a machine of 8, outside
SHARD = 65_536  # images


def plan() -> str:
    """Computed, not measured: what sizes that nobody here has run would take."""
    ms, gradient = performance.step_rows()["cnn13", "ict", "fast"]["ms"], 1e6 * read("ranks")["message_megabytes"]
    lines: dict[str, list[str]] = {name: [] for name in _PLAN}
    for n, gpus in zip(SIZES, GPUS, strict=True):
        bandwidth = BETWEEN_MACHINES if gpus > 8 else BETWEEN_GPUS
        reduce = 1000 * 2 * (gpus - 1) / gpus * gradient / bandwidth
        updates = n * PASSES / (100 * gpus)
        hours = updates * (ms + reduce) / 3.6e6
        reading = 100 * gpus / ((ms + reduce) / 1000) * IMAGE
        values = (
            f"{n:.0e} images".replace("e+0", "e"),
            f"{gpus}",
            _bytes(n * IMAGE),
            f"{-(-n // SHARD):,}",
            f"{updates:,.0f}",
            f"{reduce:.2f} ms",
            f"{hours:.2f} h",
            f"{hours * gpus:,.1f}",
            f"{_bytes(reading)}/s",
            _bytes(8 * 4 * n),
            _bytes(4 * 10 * n),
        )
        for line, value in zip(lines.values(), values, strict=True):
            line.append(value)
    head, *body = ([f"{name}", *values] for name, values in lines.items())
    table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in body)]
    return "\n".join(table) + (
        f"\n\nFrom {ms:.2f} ms an update of ICT with CNN-13 in fast mode on one H200 "
        "([step.json](../results/h200/step.json)), 100 labeled and 100 unlabeled images on each GPU, "
        f"{PASSES} passes over the unlabeled ones, a gradient of {gradient / 1e6:.1f} MB, and an all-reduce that takes "
        f"2 (K - 1) / K times its bytes over {BETWEEN_GPUS / 1e9:.0f} GB/s inside a machine of 8 GPUs and over "
        f"{BETWEEN_MACHINES / 1e9:.0f} GB/s between machines, which is assumed, and that nothing hides."
    )


_PLAN = (
    "computed estimate for",
    "GPUs",
    "storage (32x32x3, uint8)",
    "shards",
    "updates",
    "all-reduce an update",
    "wall time",
    "GPU hours",
    "unlabeled images read",
    "index arrays on each rank (4 of int64)",
    "temporal ensembling's memory on each rank (10 classes)",
)


def _bytes(n: float) -> str:
    power = min(int(log10(n)) // 3, 4)
    return f"{n / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


BLOCKS: dict[str, Callable[[], str]] = {
    "ranks": ranks,
    "shards": shards,
    "plan": plan,
    "gives": gives,
    "demo": demo,
    "moons-table": moons_table,
    "cpu": cpu,
    "laptop": on_a_cpu.laptop,
    "bfloat16": on_a_cpu.bfloat16,
    "comparison": comparison,
    "variants": variants,
    "derivative": derivative,
    "estimator": estimator,
    "example": example,
    **backbone_tables.BLOCKS,
    **performance.BLOCKS,
    **research_log.BLOCKS,
    **measured.BLOCKS,
    **summary.BLOCKS,
    **on_auto.BLOCKS,
    **on_columns.BLOCKS,
    **on_vectors.BLOCKS,
    **labeling_tables.BLOCKS,
    **claims.BLOCKS,
    **claim_tables.BLOCKS,
}


def render(text: str) -> str:
    def fill(found: re.Match[str]) -> str:
        return f"{found[1]}\n{BLOCKS[found[2]]()}\n{found[3]}"

    return re.sub(r"(<!-- begin ([\w-]+) -->)\n.*?(<!-- end \2 -->)", fill, text, flags=re.DOTALL)


def main() -> None:
    stale = []
    for name in DOCUMENTS:
        path = ROOT / name
        old = path.read_text()
        new = render(old)
        if new != old:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(new)
    if "--check" not in sys.argv:
        measured.draw_pictures(published.read_runs())
        labeling_tables.draw(measured.PICTURES)
        claim_tables.draw(measured.PICTURES)
    if stale:
        print("changed: " + ", ".join(stale))
    sys.exit(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    main()
