# Sets up, runs and checks everything; `make help` lists the targets.
# Continuous integration (.ci/run) and people run the same targets.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
RUST := Cargo.toml Cargo.lock python/scalewright/catalog/defaults.toml $(shell find rust -name '*.rs')
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# cargo shares its own jobs out; make's are not handed on to it
unexport MAKEFLAGS MFLAGS

.DEFAULT_GOAL := help
.PHONY: help plan test test-rust test-python lint lint-rust lint-python bench bench-search evidence dist clean

help:
	@echo "make plan   set up and plan GPT-3 175B on 1,024 A100-80GB"
	@echo "make test   set up and run all Rust and Python tests"
	@echo "make lint   formats, lints, types, stub, documentation"
	@echo "make bench  benchmarks of the engine"
	@echo "make bench-search  plans a second of searches, a few minutes"
	@echo "make evidence  docs/evidence.md, README's table, residuals: a few minutes"
	@echo "make dist   wheel and sdist, each tried in an empty environment"
	@echo "make clean  remove what the others made"

plan: $(VENV)/.engine
	$(BIN)/scalewright plan --model gpt3-175b --system dgx-a100-80gb --devices 1024 \
		--global-batch 1536 --sequence 2048

test: test-rust test-python

# gives way to the engine's build, which the longer tests of Python wait for
test-rust:
	nice cargo test --locked --quiet

test-python: $(VENV)/.engine $(VENV)/.tools
	$(BIN)/python -m pytest -q

lint: lint-rust lint-python

lint-rust:
	cargo fmt --check
	cargo clippy --locked --quiet --all-targets -- -D warnings
	cargo clippy --locked --quiet --all-targets --features python -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --quiet --no-deps

lint-python: $(VENV)/.engine $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m mypy.stubtest scalewright._engine

bench:
	cargo bench --locked --bench '*'

# with the page: $(BIN)/python benches/search_spaces.py --write docs/performance.md
bench-search: $(VENV)/.engine
	$(BIN)/python benches/search_spaces.py

# what is off by more than the ratchet allows makes it fail; --ratchet records anew
evidence: $(VENV)/.engine
	$(BIN)/python benches/evidence.py

dist: $(VENV)/.engine
	rm -rf dist
	$(BIN)/maturin build --locked --quiet --out dist
	$(BIN)/maturin sdist --out dist
	PYTHON=$(PYTHON) .ci/try-dist

clean:
	cargo clean
	rm -rf $(VENV) dist

# an environment with nothing but the builder
$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet 'maturin>=1.9,<2'
	touch $@

# the package, editable, its engine built with optimisation
$(VENV)/.engine: $(VENV)/.python pyproject.toml $(RUST)
	$(BIN)/maturin develop --locked --quiet
	touch $@

# what tests and lints need: the extras `test` and `dev`
$(VENV)/.tools: $(VENV)/.python pyproject.toml | $(VENV)/.engine
	$(BIN)/python -c 'import tomllib; \
		extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
		print(*extras["test"], *extras["dev"], sep="\n")' > $@.txt
	$(BIN)/python -m pip install --quiet -r $@.txt
	touch $@
