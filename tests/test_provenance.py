"""Where a number comes from."""

import platform
from pathlib import Path

from ict.experiment.provenance import processor


def test_a_processor_has_the_name_that_the_system_tells(tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text(
        "processor\t: 0\nmodel\t\t: 17\nmodel name\t: Abacus 9: turbo\n\nprocessor\t: 1\nmodel name\t: other\n"
    )
    assert processor(told) == "Abacus 9: turbo"


def test_one_without_a_name_has_its_kind(tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    kind = platform.processor() or platform.machine()
    assert processor(told) == kind and kind
    told.write_text("processor\t: 0\nmodel name\t:\n")
    assert processor(told) == kind
