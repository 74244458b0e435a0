# Everything a person or CI does with this project.  Both `make run` and `make test` work in a
# fresh clone on a machine with Python 3.11, a C compiler, make and Java 17.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 5
RUN_FLAGS ?=
# What has compiled modules, and is tested interpreted, too.
INTERPRETED := $(addprefix tests/unit/,arrow broker jetstream protocol store subjects wire)

# Without compiled modules to keep, each worker would compile every test anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-pure lint collect fmt build bench soak fuzz sanitized clean

run: build  ## the main job on embedded defaults: broker, gateway and pipeline of examples/orders
	@$(BIN)/python -m examples.orders $(RUN_FLAGS)

test: build  ## what CI runs
	@$(MAKE) --no-print-directory -j 2 --output-sync lint collect
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup
	MILLSTREAM_PURE=1 $(BIN)/pytest -n $(WORKERS) --dist loadgroup $(INTERPRETED)

test-pure: build  ## every test on the interpreted build
	MILLSTREAM_PURE=1 $(BIN)/pytest -n $(WORKERS) --dist loadgroup

lint: build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

collect: build  ## compile the tests once, beside the type checker, and not once in each worker
	@$(BIN)/pytest --collect-only --quiet > /dev/null

fmt: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: build  ## against nats-server, interleaved; ratios are what counts
	$(BIN)/python -m benchmarks core
	$(BIN)/python -m benchmarks streams

soak: build  ## long runs: fuzzing, connection storms, leaks
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m soak --override-ini addopts="-ra --strict-markers"

# Where the modules with sanitizers lie, beside those without; Python loads them if the sanitizers are there first.
SANITIZED := build/sanitized/lib
SECONDS ?= 10
FUZZ_FLAGS ?=
SANITIZER_LIBRARIES = $(foreach library,libasan.so libubsan.so libstdc++.so,$(shell $(CC) -print-file-name=$(library)))

fuzz: sanitized  ## every input from outside, with sanitizers; SECONDS for each target, FUZZ_FLAGS="TARGET …" or "--replay"
	LD_PRELOAD="$(SANITIZER_LIBRARIES)" PYTHONPATH=$(SANITIZED):. PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024 UBSAN_OPTIONS=print_stacktrace=1 \
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(FUZZ_FLAGS)

sanitized: build
	@MILLSTREAM_SANITIZE=1 $(BIN)/python setup.py --quiet build --build-base build/sanitized --build-lib $(SANITIZED)

build: $(INSTALLED)
	@$(BIN)/python setup.py --quiet build_ext --inplace

$(INSTALLED): pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip "setuptools>=77" "cython>=3.1"
	@# without compiled modules: `build` makes them, once, where they are used
	MILLSTREAM_PURE=1 $(BIN)/pip install --quiet --no-build-isolation --editable ".[gateway,spark,dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src -name '*.so' -delete
