"""No file makes Python import or call what it names, whatever kind of file it is.

Each file of each format's sample names a module that would create a file, in every way that a format might follow: as
a pickle, as an array of objects, as torch's format, and in place of each string of JSON.
"""

import subprocess
import sys
from pathlib import Path

from tests.fuzz.readers import COVERED, reading_modules

ATTACK = r"""
import io, json, os, pickle, shutil, sys, traceback, warnings
from pathlib import Path
home, root = Path(sys.argv[1]), Path.cwd()
os.chdir(home)
sys.path.insert(0, str(home))  # as for somebody who works where the canary lies
import numpy as np, torch
from tests.fuzz.formats import FORMATS
warnings.simplefilter("ignore")
os.environ["ICT_CACHE"] = str(home / "cache")

class Attack:
    def __reduce__(self):
        return os.mkdir, (str(home / "called"),)

def objects():
    file = io.BytesIO()
    np.save(file, np.array([Attack()], dtype=object), allow_pickle=True)
    return file.getvalue()

def torchs():
    file = io.BytesIO()
    torch.save({"student": Attack()}, file)
    return file.getvalue()

NAMES = ("canary:Thing", "torch:canary:Thing")

def named(content):
    if isinstance(content, dict):
        for key, value in content.items():
            for changed in named(value):
                yield {**content, key: changed}
            if isinstance(value, str):
                yield from ({**content, key: name} for name in NAMES)
    elif isinstance(content, list):
        for i, value in enumerate(content):
            for changed in named(value):
                yield [*content[:i], changed, *content[i + 1:]]

def poisons(raw):
    yield from (pickle.dumps(Attack(), protocol) for protocol in range(6))
    yield pickle.dumps({b"data": Attack(), b"labels": [1, 2, 3]}, 2)
    yield from (objects(), torchs())
    try:
        content = json.loads(raw)
    except ValueError:
        return
    yield from (json.dumps(changed).encode() for changed in named(content))

tried = 0
for name, kind in FORMATS.items():
    sample = home / "sample" / name
    sample.mkdir(parents=True)
    kind.make(sample)
    for path in sorted(path for path in sample.glob(kind.damaged) if path.is_file()):
        for poison in poisons(path.read_bytes()):
            case = home / "case"
            shutil.rmtree(case, ignore_errors=True)
            shutil.copytree(sample, case)
            (case / path.relative_to(sample)).write_bytes(poison)
            tried += 1
            try:
                kind.finish(case)
                kind.read(case)
            except Exception:
                pass  # what is refused, and how, is the fuzz suite's affair
            for trace in ("imported", "called"):
                assert not (home / trace).exists(), f"{name}: {path.name} was followed"
pickle.loads(pickle.dumps(Attack()))
import canary
assert (home / "called").is_dir() and (home / "imported").exists(), "the canary itself is dead"
print(tried)
"""


def test_no_file_of_any_kind_runs_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "canary.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\nclass Thing:\n    pass\n"
    )
    root = Path(__file__).parents[2]
    code = f"import sys\nsys.path.insert(0, {str(root)!r})\n{ATTACK}"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) > 300


def test_every_module_that_reads_files_is_covered() -> None:
    from tests.fuzz.formats import FORMATS

    found = reading_modules()
    assert found - COVERED.keys() == set(), "add what these read to tests/fuzz/formats.py, and them to COVERED"
    assert COVERED.keys() - found == set(), "these read nothing any more"
    named = {name for formats in COVERED.values() if isinstance(formats, tuple) for name in formats}
    assert named == FORMATS.keys()
