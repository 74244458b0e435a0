# Everything a person or CI does with this project.  Both `make run` and `make test` work in a
# fresh clone on a machine with Python 3.11, a C compiler, make and Java 17.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 4
RUN_FLAGS ?=

.PHONY: run test test-pure lint fmt build bench soak clean

run: build  ## the main job on embedded defaults: broker, gateway and pipeline of examples/orders
	@$(BIN)/python -m examples.orders $(RUN_FLAGS)

test: lint  ## what CI runs
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup
	MILLRACE_PURE=1 $(BIN)/pytest -n $(WORKERS) --dist loadgroup tests/unit tests/model

test-pure: build  ## every test on the interpreted build
	MILLRACE_PURE=1 $(BIN)/pytest -n $(WORKERS) --dist loadgroup

lint: build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: build  ## against nats-server, interleaved; ratios are what counts
	$(BIN)/python -m benchmarks core
	$(BIN)/python -m benchmarks streams

soak: build  ## long runs: fuzzing, connection storms, leaks
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m soak --override-ini addopts="-ra --strict-markers"

build: $(INSTALLED)
	@$(BIN)/python setup.py --quiet build_ext --inplace

$(INSTALLED): pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip "setuptools>=77" "cython>=3.1"
	@# without compiled modules: `build` makes them, once, where they are used
	MILLRACE_PURE=1 $(BIN)/pip install --quiet --no-build-isolation --editable ".[gateway,spark,dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src -name '*.so' -delete
