# Two commands: `make demo` and `make test`. Both set up .venv first; nothing else is needed but Python 3.11 and make.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test chaos fuzz setup format results clean

setup: .venv/ready

# torch alone first and pinned: a range would take the newest build with gigabytes of CUDA libraries
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=python3.11')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--no-build-isolation --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/ict demo

test: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadgroup --timeout 300

WORKERS ?= 2

# A kill, an error and a full disk at every file operation of the commands that write: about half an hour on two cores.
chaos: setup
	$(BIN)/python -m tests.chaos --workers $(WORKERS)

# Damaged files of every format that is read: make fuzz N=10000 is the total over all formats.
N ?= 10000
fuzz: setup
	$(BIN)/python -m tests.fuzz.run --cases $(N) --total --workers $(WORKERS)

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The numbers and pictures in the README and the docs that need no GPU, from scratch: about an hour on two cores.
# results/demo-other.json is the demo.json of another processor.
results: setup
	$(BIN)/ict demo --out runs/results --seeds 10
	cp runs/results/demo.json results/demo-10.json
	$(BIN)/ict demo --out runs/results --seeds 3
	cp runs/results/demo.json results/demo.json
	cp runs/results/curves.png docs/img/demo.png
	$(BIN)/ict demo --out runs/dropout --set network.dropout=0.25
	cp runs/dropout/demo.json results/demo-dropout.json
	$(BIN)/ict figure moons --seeds 100 --out runs/results/moons.png
	$(BIN)/ict figure moons --seeds 100 --recipe moons/ict --out runs/results/moons-plain.png
	cp runs/results/moons.json runs/results/moons-plain.json results/
	cp runs/results/moons.png runs/results/moons-plain.png docs/img/
	$(BIN)/ict compare digits-100 --out runs/results/compare
	cp runs/results/compare/compare.json results/compare-digits-100.json
	cp runs/results/compare/compare.png docs/img/compare.png
	$(BIN)/ict compare digits-100 --out runs/results/variants \
		--methods ict,ict-mixed-labels,ict-no-teacher,ict-hidden,ict-ce,ict-kl,ict-sharpened
	cp runs/results/variants/compare.json results/compare-digits-100-variants.json
	$(BIN)/ict compare digits-100 --out runs/results/difference --methods vat,vat-ent
	cp runs/results/difference/compare.json results/compare-digits-100-difference.json
	$(BIN)/ict compare digits-100 --out runs/results/derivative --methods vat,vat-ent --set algorithm.xi=0
	cp runs/results/derivative/compare.json results/compare-digits-100-derivative.json
	$(BIN)/python benchmarks/cpu.py --out results/cpu.json
	$(BIN)/python benchmarks/laptop.py --out results/laptop.json
	$(BIN)/python benchmarks/bfloat16.py --svhn $(ICT_DATA) --out results/bfloat16.json
	$(BIN)/python research/direction.py --out results/direction.json
	$(BIN)/python benchmarks/estimator.py --out results/estimator.json
	$(BIN)/python benchmarks/tables.py --wheel $(KEEL) --out results/tables.json
	$(BIN)/python benchmarks/features.py --data $(ICT_DATA) --out results/features.json
	$(BIN)/python benchmarks/verdict.py --wheel $(KEEL) --features runs/features --out results/verdict.json
	$(BIN)/python benchmarks/graph.py --out results/graph.json
	$(BIN)/python benchmarks/ranks.py --out results/ranks.json
	$(BIN)/python benchmarks/shards.py --out results/shards.json
	$(BIN)/python research/waves.py --out results/waves.json
	$(BIN)/python examples/digits_four_labels.py > results/digits_four_labels.txt
	$(BIN)/python tools/package_runs.py
	$(BIN)/python tools/render.py
	$(BIN)/python tools/methods.py

clean:
	rm -rf .venv runs dist
