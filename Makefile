# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Both need only Python 3.11 or later, and make; the rest goes into .venv.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests of one file stay together; torch's own threads would only take the processors from one
# another. Those that measure time run one after the other: the marker `alone` in pyproject.toml.
SIDE_BY_SIDE := OMP_NUM_THREADS=1 PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: help demo hello test check lint types layers fast system browser bench docs fuzz clean

help:
	@echo "make demo    set up, then train one model on four unequal devices, emulated here"
	@echo "make hello   set up the least there is, then let two processes talk to one another"
	@echo "make test    set up, then lint, types, layers and all tests"
	@echo "make check   the quick part of it (no system or slow tests)"
	@echo "make bench   calls beside gRPC and others, simulation and cycles beside the bare maths"
	@echo "make docs    the documentation as a site, in build/site"
	@echo "make fuzz    a minute of fuzzing with atheris"

.venv/.base: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed and was not found"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

.venv/.learn: .venv/.base
	$(PIP) --editable '.[learn]'
	@touch $@

.venv/.dev: .venv/.base
	$(PIP) --editable '.[dev,learn,figures,milp,zstd]'
	@touch $@ .venv/.learn

.venv/.docs: .venv/.base
	$(PIP) --editable '.[docs]'
	@touch $@

.venv/.bench: .venv/.base
	$(PIP) --editable '.[bench]'
	@touch $@

demo: .venv/.learn
	$(BIN)/python examples/deadline/main.py

hello: .venv/.base
	$(BIN)/python examples/hello/main.py

test: lint types layers .venv/.dev browser
	$(SIDE_BY_SIDE) -m 'not alone'
	$(BIN)/python -m pytest -m alone

check: lint types layers fast

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

layers: .venv/.dev
	$(BIN)/lint-imports

fast: .venv/.dev
	$(SIDE_BY_SIDE) -m 'not system and not slow'

system: .venv/.dev
	$(BIN)/python -m pytest -m 'system or slow'

# For the tests of the dashboard, which are skipped where there is none; installed where that is
# allowed. Nothing fails for want of it.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
		command -v apt-get >/dev/null && test "$$(id -u)" = 0 && \
		timeout 120 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 300 \
		apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
		echo "no chromium: the dashboard is not tested in a browser"

bench: .venv/.bench .venv/.learn
	$(BIN)/python benchmarks/bench_rpc.py
	$(BIN)/python benchmarks/bench_simulation.py
	$(BIN)/python benchmarks/bench_round.py
	$(BIN)/python benchmarks/bench_allocation.py
	$(BIN)/python benchmarks/bench_med.py --quick

# The variable silences a word on a later major version of mkdocs, which is none of ours.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open build/site/index.html"

fuzz: .venv/.dev
	$(PIP) atheris
	$(BIN)/python tests/fuzz/fuzz_worker.py -max_total_time=60

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
