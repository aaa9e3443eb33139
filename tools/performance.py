"""The texts of docs/performance.md about a GPU, from what the benchmarks wrote. tools/render.py puts them in place."""

from collections.abc import Callable
from typing import Any

from result_files import origin, read

from ict.paper.table import markdown

VERSIONS = ("fp32", "tf32", "bf16", "fast")


def step_rows() -> dict[tuple[str, str, str], Any]:
    """What benchmarks/step.py measured, by network, algorithm and version."""
    return {(row["network"], row["algorithm"], row["version"]): row for row in read("h200/step")["rows"]}


def ladder() -> str:
    """Milliseconds an update by network and method, and what a method costs beside supervised training."""
    result, rows = read("h200/step"), step_rows()
    lines = []
    for network in dict.fromkeys(row["network"] for row in result["rows"]):
        lines += [
            f"**{network}**",
            "",
            "| method | fp32 | tf32 | bf16 | fast | again | of the peak | arithmetic | cost |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        base = rows[network, "supervised", "fast"]
        for algorithm in dict.fromkeys(row["algorithm"] for row in result["rows"] if row["network"] == network):
            found = [rows[network, algorithm, version] for version in VERSIONS]
            times = [f"{row['ms']:.2f}" if "ms" in row else "-" for row in found]
            fast, rest = found[-1], ["-", "-", "-", "-"]
            if "ms" in fast:
                arithmetic, cost = fast["gflop"] / base["gflop"], fast["ms"] / base["ms"]
                rest = [f"{fast['ms_again']:.2f}", f"{fast['share_of_peak']:.0%}", f"{arithmetic:.2f}", f"{cost:.2f}"]
            lines.append(f"| {algorithm} | " + " | ".join([*times, *rest]) + " |")
        lines.append("")
    days = sorted(row["finished"][:10] for row in result["rows"])
    return "\n".join(lines) + (
        "\nMilliseconds an update at 100 labeled and 100 unlabeled images, everything included, in four versions; the "
        "last one timed again; the share it reaches of a large bfloat16 product on the same day "
        f"({result['peak_tflops_bf16']:.0f} TFLOP/s on the last); counted arithmetic and measured time as multiples of "
        f"supervised training's. {result['machine']}, torch {result['versions']['torch']}, {days[0]} to {days[-1]}. "
        "File: [step.json](../results/h200/step.json)."
    )


def gpu() -> str:
    """The numbers of fast mode in words."""
    step, reference, startup = (read(f"h200/{name}") for name in ("step", "reference", "startup"))
    rows = step_rows()
    ict, muon, plain = (rows["cnn13", "ict", version] for version in ("fast", "muon", "fp32"))
    wide = rows["wrn-28-2", "ict", "fast"]
    seconds, memory = startup["seconds_to_first_update"], max(row.get("memory_gb", 0) for row in step["rows"])
    return (
        f"An update of ICT with CNN-13 takes {ict['ms']:.2f} ms on one {step['machine']}, "
        f"{plain['ms'] / ict['ms']:.0f} times less than the plain float32 step and {reference['ms'] / ict['ms']:.0f} "
        f"times less than a program in the style of 2019 on the same machine ({reference['ms']:.0f} ms, "
        f"[reference.json](../results/h200/reference.json)); with Muon instead of SGD it takes {muon['ms']:.2f} ms, "
        f"with WRN-28-2 {wide['ms']:.2f} ms. No method "
        f"and network here needs more than {memory:.1f} GB. 10,000 images are evaluated in "
        f"{ict['evaluation_seconds']:.2f} s during training and in {plain['evaluation_seconds']:.2f} s in float32, as "
        f"the final number is. From the command to the first update it takes {seconds['cold']:.0f} s, "
        f"{seconds['warm']:.0f} s once Triton has compiled the kernels "
        "([startup.json](../results/h200/startup.json))."
    )


RULE = 1.15  # an update may take this much longer than ICT's, measured by its arithmetic


def rule() -> str:
    """Which methods take more time than their arithmetic explains, and what streaming costs."""
    rows = {key: row for key, row in step_rows().items() if "ms" in row}
    above, derivatives, n = [], [], 0
    for (network, algorithm, version), row in rows.items():
        ict = rows[network, "ict", "fast"]
        times = row["ms"] / ict["ms"] * ict["gflop"] / row["gflop"]
        if version == "derivative":
            derivatives.append(f"{row['ms']:.2f} ms with {network} ({times:.2f})")
        elif version == "fast" and algorithm != "ict":
            n += 1
            if times > RULE:
                above.append(f"{algorithm} with {network} {times:.2f}")
    fast, streamed = (rows["cnn13", "ict", version] for version in ("fast", "streamed"))
    together = fast.get("commit") == streamed.get("commit")  # else the two were measured on different days
    fetched = " and ".join(
        f"{streamed[key]:.2f} ms" + (f" ({streamed[key] / fast['ms'] - 1:.0%} more)" if together else "")
        for key in ("ms", "ms_again")
    )
    derivative = f"VAT by its derivative (`algorithm.xi=0`): {', '.join(derivatives)}. " if derivatives else ""
    return (
        f"Time for each unit of arithmetic, as a multiple of ICT's on the same network: at most {RULE} for "
        f"{n - len(above)} of {n} pairs of method and network, and more for {', '.join(above)}. "
        f"{derivative}With examples fetched from the host's memory an update of ICT with CNN-13 takes {fetched}, "
        f"timed twice{'' if together else ' and apart from the table above'}."
    )


FLOAT32 = 67e12  # operations a second, by NVIDIA's datasheet of the H200


def limits() -> str:
    """Why some methods cannot keep that rule."""
    waves, rows = read("waves"), step_rows()
    some, more = (waves["share"]["cnn13"][n] for n in ("100", "200"))
    ict, vat, inner = (rows["cnn13", name, "fast"] for name in ("ict", "vat", "supervised"))
    allowed = RULE * ict["ms"] * vat["gflop"] / ict["gflop"]
    return (
        f"Part of the limit can be counted: in tiles of {waves['tile']} by {waves['tile']} numbers on "
        f"{waves['processors']} processors the convolutions of CNN-13 fill {some:.0%} of the GPU at 100 images and "
        f"{more:.0%} at 200, since the last tiles leave most processors idle ([waves.json](../results/waves.json), "
        "`research/waves.py`): supervised training and both mixups run at 100, ICT's student at 200. VAT's inner "
        f"pass (two forwards and a gradient of 100 images) is {inner['gflop']:.0f} GFLOP in float32, "
        f"{1000 * inner['gflop'] * 1e9 / FLOAT32:.1f} ms at the rate of the card's datasheet; the rule would leave "
        f"VAT {allowed:.1f} ms in all."
    )


def direction() -> str:
    """VAT's, by network and way of finding it."""
    result = read("direction")
    ways = dict.fromkeys(row["way"] for row in result["rows"])
    found = {(row["network"], row["way"]): row for row in result["rows"]}
    networks = dict.fromkeys(row["network"] for row in result["rows"])
    rows = [
        [way, *(f"{found[name, way]['cosine']:.2f}, {found[name, way]['divergence']:.2f}" for name in networks)]
        for way in ways
    ]
    return markdown(["direction by", *networks], rows) + (
        "\n\nThe mean cosine with the direction by the derivative in float64, and the divergence after a step of "
        f"length {result['epsilon']:g} as a share of that along the other; {result['images']} images of noise, "
        "untrained networks, on a CPU. Reversing a direction leaves the divergence unchanged. File: "
        f"[direction.json](../results/direction.json), `research/direction.py`; {origin(result)}."
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "ladder": ladder,
    "gpu": gpu,
    "rule": rule,
    "limits": limits,
    "direction": direction,
}
