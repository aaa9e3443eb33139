"""The texts of docs/performance.md about a CPU, from what the benchmarks wrote. tools/render.py puts them in place."""

from typing import Any

from result_files import origin, read

from ict.paper.table import markdown


def laptop() -> str:
    """What benchmarks/laptop.py measured: training, predicting and what is around them."""
    result = read("laptop")
    heads = ["an update of ICT", "plain, ms", "exact, ms", "fast, ms", "exact / plain", "fast / exact", "fast / plain"]
    updates = [
        [
            name,
            *(f"{row['ms'][key]:.1f}" if key in row["ms"] else "-" for key in ("plain", "exact", "fast")),
            *(f"{row[key]:.2f}x" if key in row else "-" for key in ("exact over plain", "fast over exact")),
            f"{row['fast over plain']:.2f}x" if "fast over plain" in row else "-",
        ]
        for name, row in result["update"].items()
    ]
    paths = ("float64", "torch", "ict", "onnxruntime")
    predictions = [
        [
            name,
            *(f"{row['images a second'][path]:,}" if path in row["images a second"] else "-" for path in paths),
            f"{row['ict over float64']:.1f}x",
            f"{row['one, ict in units of float64']:.2f}",
        ]
        for name, row in result["predict"].items()
    ]
    predicting = ["images a second", *paths, "ict / float64", "time of a single image, ict / float64"]
    sizes, imports, jpeg = result["sizes"], result["import"], result["jpeg to 32x32"]
    memory = result["predicting 64x64 RGB, GB at most"]
    costs = [[name, ", ".join(f"{k}: {v}" for k, v in values.items())] for name, values in sizes.items()]
    return "\n\n".join(
        [
            markdown(heads, updates),
            markdown(predicting, predictions),
            f"float64 is how predictions were computed before. A process that predicts 64x64 RGB images takes "
            f"{' and '.join(f'{gb:.2f} GB for {int(n):,}' for n, gb in memory.items())} of them. "
            f"A JPEG file of 1024x768 to 32x32: {jpeg['ratio']:.1f} times as fast at a reduced "
            f"scale. `from ict import ICTClassifier` takes "
            f"{imports['ratio']:.2f} times the CPU of `import sklearn.base`.",
            markdown(["cost against size", ""], costs),
            "One thread, CPU seconds. Paths that are compared took turns within one run, and the shortest of several "
            "rounds counts, since other programs on the machine only make a path slower; "
            f"{origin(result)} "
            "([laptop.json](../results/laptop.json)). Command: `python benchmarks/laptop.py`.",
            *_all_cores(result),
            *_whole_fit(result),
        ]
    )


def _all_cores(result: dict[str, Any]) -> list[str]:
    if (found := result.get("all cores")) is None:
        return []
    gains = ", ".join(f"{name} {gain:.2f}x" for name, gain in found.items() if name != "threads")
    return [f"With {found['threads']} threads instead of one an update takes less time by: {gains}."]


def _whole_fit(result: dict[str, Any]) -> list[str]:
    """The fit beside an earlier release, if it was measured at full length."""
    fit = result.get("fit", {})
    if "earlier" not in fit or fit["steps"] is not None:
        return []
    costs = ", ".join(
        f"{mode} {fit[mode]['cpu_seconds']:.0f} ({fit[mode]['method'] or 'method not written'}, "
        f"{fit[f'{mode} over earlier']:.2f} times as many)"
        for mode in ("float32", "bfloat16")
        if mode in fit
    )
    before = fit["earlier"]["cpu_seconds"]
    return [
        f"`ict fit` of {fit['images']:,} gray images of {fit['side']}x{fit['side']}, {fit['labels']} of them labeled, "
        f"on pixels, `--method {fit['asked']}`: {before:.0f} CPU seconds by the earlier release; {costs}."
    ]


def bfloat16() -> str:
    """Whether fast mode on a CPU costs accuracy."""
    result = read("bfloat16")
    rows = [
        [
            name,
            *(f"{100 * case['mean'][mode]:.2f} %" for mode in ("float32", "bfloat16")),
            f"{100 * case['difference']:+.2f}",
            "{:+.2f} to {:+.2f}".format(*(100 * end for end in case["interval"])),
            f"{case['p']:.2f}",
        ]
        for name, case in result["cases"].items()
    ]
    table = markdown(["test error of ICT", "float32", "bfloat16", "points", "95 % interval", "p"], rows)
    return (
        f"{table}\n\nMeans of {result['seeds']} seeds, {result['steps']:,} updates, by the paired t-test over seeds; "
        f"{origin(result)} ([bfloat16.json](../results/bfloat16.json), `benchmarks/bfloat16.py`)."
    )
