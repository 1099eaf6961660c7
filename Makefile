# `make help` lists the commands. Everything runs in .venv, which `make setup` makes; the other
# commands make it too where it is missing or older than the lock file.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
SETUP := $(VENV)/.setup-done
WHEEL := dist/kafka_ferry.zip
LIBRARY := $(shell find include/kafka_ferry include/kafka_ferry_airflow dags spark_jobs -type f -not -name '*.pyc')

# Spark comes as sources, and to squeeze its jars into a wheel that is kept for a moment takes a minute.
INSTALL := uv pip install --quiet --no-deps --python $(BIN)/python \
  --config-settings-package pyspark:--build-option=--compression=stored

# Two processors are never idle: what waits for brokers and for Airflow most of the time leaves them to others.
# First the tests that must be alone, one after the other, since a real Airflow has to answer in time, and then three
# files at a time: each process has brokers and a Spark of its own, which the tests of a file share. Beside all of
# them, with a low priority and in a cache of its own (.ci/run), what waits for nothing. The long files come first
# (here and in pyproject.toml), so that none waits for another.
BESIDE := tests/simulation/test_histories.py tests/faults/test_foreign_bytes.py tests/unit
BESIDE_LONG := tests/system/spark/test_image.py tests/faults/test_memory.py tests/faults/test_foreign_bytes.py tests/simulation
# Linux shares the processors between sessions first (autogroup), and brokers and Airflow have sessions of their own:
# among them a process's own priority says nothing.
LAST := $$(command -v setsid) sh -c '{ echo 10 > /proc/self/autogroup; } 2> /dev/null; exec nice -n 10 "$$@"' sh
define run_tests
FERRY_SOURCE_BROKERS=1 FERRY_TARGET_BROKERS=1 $(LAST) pytest -n 2 --dist loadfile --no-loadscope-reorder \
  -o cache_dir=.pytest_cache/beside -m "$(1)" $(2) > $(VENV)/beside.log 2>&1 & beside=$$!; \
  trap "kill $$beside 2> /dev/null" EXIT; trap "exit 130" INT TERM; \
  pytest -m "$(1) and alone" tests/system; alone=$$?; \
  pytest -n 3 --dist loadfile --no-loadscope-reorder -m "$(1) and not alone" \
    $(filter-out $(2),tests/system tests/faults tests/integration tests/simulation) $(2:%=--ignore=%); others=$$?; \
  wait $$beside; beside=$$?; cat $(VENV)/beside.log; [ "$$alone $$others $$beside" = "0 0 0" ]
endef
# With --quiet, mkdocs would count no warning, and --strict fail at none.
SITE = NO_MKDOCS_2_WARNING=1 mkdocs build --strict --site-dir $(1) 2> $(VENV)/docs.log || { \
  grep -v "^INFO" $(VENV)/docs.log; exit 1; }

# uv compiles no module, and where this is set, as in many containers, Python keeps none that it has compiled:
# each process would compile a thousand of them again.
unexport PYTHONDONTWRITEBYTECODE
COMPILE := python -m compileall -qq -j 0 -x '/tests/'

export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# As pip does: trust the certificates that the system trusts.
export UV_SYSTEM_CERTS ?= true
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory --no-builtin-rules
.PHONY: help setup demo demo-down test test-long storm simulate replay screenshots lint audit-dependencies format docs clusters clusters-down bench bench-quick clean

help: ## List the commands
	@awk -F ' *:.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) $(WHEEL) ## Make .venv from the lock file and build the library's wheel
	@:

demo: setup ## Mirror 240,000 records from one real cluster to another, through Airflow
	@python -m kafka_sandbox.demo

demo-down: $(SETUP) ## Stop the demo's Airflow and clusters; their data stays
	@python -m kafka_sandbox.airflow down
	@python -m kafka_sandbox.clusters down

test: setup ## Run each promise's test once, on real clusters, a real Spark and a real Airflow
	@$(call run_tests,not long,$(BESIDE))

test-long: setup ## Run what needs minutes, such as storms and old brokers, and what happens seldom
	@$(call run_tests,long,$(BESIDE_LONG))

storm: setup ## Kill, cut and delete while flows run: make storm FAULTS=500 SEED=7
	@pytest -s tests/faults/test_storm.py $(if $(FAULTS),--storm-faults $(FAULTS)) $(if $(SEED),--storm-seed $(SEED))

# Strings' hashes decide the order of sets: with one of their own in each process, no history would come twice.
SIMULATION := PYTHONHASHSEED=0 PYTHONPATH=. python -m tests.simulation

simulate: $(SETUP) ## Run histories of faults between simulated clusters: make simulate SECONDS=60
	@$(SIMULATION) --seconds $(or $(SECONDS),60) $(ARGS)

replay: $(SETUP) ## Print what happens in one of them: make replay SEED=17
	@$(SIMULATION) --seed $(SEED) $(ARGS)

screenshots: setup ## Take the pictures of the docs again, from the tests in a browser
	@pytest -q tests/system/pages/test_ui_backfill.py tests/system/pages/test_page_in_browser.py
	@python -m tests.support.airflow.pictures

lint: $(SETUP) ## Check style, types, imports between parts, spelling, and the Dockerfile
	@echo "ruff check"; ruff check --quiet .
	@echo "ruff format"; ruff format --quiet --check . || { ruff format --check .; exit 1; }
	@echo "mypy"; mypy --no-error-summary
	@echo "import-linter"; lint-imports > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }
	@echo "codespell"; codespell .ci benchmarks dags deploy docs include plugins sandbox spark_jobs tests *.md *.toml *.yaml Makefile Dockerfile
	@echo "hadolint"; hadolint Dockerfile
	@echo "docs"; $(call SITE,$(CURDIR)/$(VENV)/site)

# Not in the lock file, and not a part of CI: what is found depends on the day.
audit-dependencies: $(SETUP) ## Print the known vulnerabilities of the packages in the lock file
	@eval "$$(python -m pip config list | python .ci/uv_settings.py)"; \
	uv tool run --quiet --from pip-audit==2.10.1 pip-audit --requirement $(or $(LOCK),requirements.lock) \
	  --disable-pip --progress-spinner off --format json $(ARGS) 2> $(VENV)/audit.log | \
	  python .ci/vulnerabilities.py || { status=$$?; [ $$status = 1 ] || cat $(VENV)/audit.log; exit $$status; }

format: $(SETUP) ## Bring the code into its format
	@ruff check --quiet --fix .; ruff format --quiet .

docs: $(SETUP) ## Write the generated pages and build the docs into site/
	@python -m kafka_ferry.config.files.reference options > docs/reference/options.md
	@python -m kafka_ferry.config.files.reference mirrormaker2 > docs/reference/mirrormaker2.md
	@python -m kafka_ferry.runs.rights > docs/reference/rights.md
	@python -m kafka_ferry.report.catalogue > docs/reference/metrics.md
	@python .ci/licences.py > docs/reference/licences.md
	@python -m kafka_ferry.config.files.schema > include/configs/flow.schema.json
	@$(call SITE,site)

clusters: $(SETUP) ## Start the clusters primary (port 19092) and backup (29092): make clusters BROKERS=3
	@python -m kafka_sandbox.clusters up $(if $(BROKERS),--brokers $(BROKERS))

clusters-down: $(SETUP) ## Stop the clusters; their data stays
	@python -m kafka_sandbox.clusters down

bench: setup ## Measure all that the README tells in numbers, five times each: make bench ARGS=--help
	@python -m benchmarks $(ARGS)

bench-quick: setup ## Measure runs beside MirrorMaker 2 in three minutes: make bench-quick ARGS="--repeat 5"
	@python -m benchmarks.quick $(ARGS)

clean: ## Stop the demo and delete what it and the tests left; .venv stays
	@if [ -x $(BIN)/python ]; then \
	  python -m kafka_sandbox.airflow down; python -m kafka_sandbox.clusters down --wipe; fi
	@rm -rf .airflow .ferry .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache \
	  .sandbox dist site spark-warehouse
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(SETUP): requirements.lock pyproject.toml sandbox/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed, and $(PYTHON) is not. Name another: make PYTHON=..."; exit 1; }
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); \
	[ "$${version:-0}" -ge 17 ] || { \
	  echo "Java 17 or newer is needed, and $$java is not. Install one (packages.txt) or set JAVA_HOME."; exit 1; }
	@echo "Making $(VENV) from requirements.lock ..."
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock | \
	  python -m pip install --quiet --no-deps --require-hashes --requirement /dev/stdin
	@eval "$$(python -m pip config list | python .ci/uv_settings.py)"; \
	$(INSTALL) --require-hashes --requirement requirements.lock
	@$(INSTALL) --no-build-isolation --editable . --editable sandbox
	@$(COMPILE) $(VENV) sandbox; python -m kafka_ferry.spark.bytecode
	@echo "Making an archive of the classes that Spark loads ..."; python -m kafka_ferry.spark.class_archive || \
	  echo "Spark goes without it: each run starts some seconds later."
	@touch $@

# Spark sends a .whl to its executors, but only a .zip gets on their import path.
$(WHEEL): $(SETUP) $(LIBRARY)
	@echo "Building the wheel ..."
	@rm -rf dist
	@uv build --quiet --wheel --no-build-isolation --no-create-gitignore --python $(BIN)/python --out-dir dist
	@cp dist/kafka_ferry-*.whl $@
	@$(COMPILE) include/kafka_ferry include/kafka_ferry_airflow; python -m kafka_ferry.spark.bytecode $@
