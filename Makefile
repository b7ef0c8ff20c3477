# `make` alone lists the targets. Needs Python 3.11 or newer and Java 17 or 21; everything else goes into .venv and
# into the jar cache (~/.cache/ticdc-warehouse, or TICDC_WAREHOUSE_CACHE).

BIN := .venv/bin
INSTALLED := .venv/.installed
JARS := .venv/.jars
WORKERS ?= 2
SHARED := -n $(WORKERS) --no-loadscope-reorder
PYTHON ?= python3.11 python3.12 python3.13 python3 python
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# The first of $(PYTHON) that runs and is new enough, as $$python in a recipe.
define FIND_PYTHON
for python in $(PYTHON); do \
  if $$python -c '$(NEW_ENOUGH)' 2>/dev/null; then break; fi; python=; \
done; \
if [ -z "$$python" ]; then \
  echo "There is no Python 3.11 or newer here (tried: $(PYTHON)). Install one, or name it: make setup PYTHON=/path/to/python3." >&2; \
  exit 1; \
fi
endef

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup java demo test test-all test-fast test-spark test-e2e test-system lint bench docs package lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: java $(INSTALLED) ## Make .venv from the lock and fetch the jars (again only when something changed)
	@$(BIN)/python -m pipeline.devstack fetch
	@$(BIN)/python -m pipeline.runtime.archiving
	@touch $(JARS)

demo: java $(JARS) ## Show it: TiCDC changes through Kafka into checked Iceberg tables
	@$(BIN)/ticdc-warehouse demo

test: java $(JARS) lint ## Lint, types, layers and every test that is not slow
	@$(BIN)/python -m pytest -q $(SHARED)

test-all: java $(JARS) lint ## The same with the slow tests, every golden case, 20 random kills and 100,000 histories of each kind by commit ts (a night)
	@TICDC_WAREHOUSE_GOLDEN=all TICDC_WAREHOUSE_KILLS=20 TICDC_WAREHOUSE_HISTORIES=100000 $(BIN)/python -m pytest -q $(SHARED)

# K="words of pytest's -k" picks tests: make test-e2e K="kills and not cut"
K ?=
PICKED = $(if $(K),-k "$(K)")
SYSTEM := tests/e2e/test_airflow.py tests/e2e/test_cluster.py tests/e2e/test_compose.py tests/e2e/test_demo.py

test-fast: $(INSTALLED) ## The tests that need neither Spark nor Java (minutes; K="…" picks some)
	@$(BIN)/python -m pytest -q tests/unit $(PICKED)

test-spark: java $(JARS) ## The tests of Spark expressions and tables, without a broker
	@$(BIN)/python -m pytest -q $(SHARED) tests/spark $(PICKED)

test-e2e: java $(JARS) ## The tests with a broker and a registry, TiCDC's own bytes among them
	@$(BIN)/python -m pytest -q $(SHARED) tests/golden tests/e2e $(SYSTEM:%=--ignore=%) $(PICKED)

test-system: java $(JARS) ## The tests with containers, Airflow, a Spark cluster and the demo
	@$(BIN)/python -m pytest -q $(SHARED) $(SYSTEM) $(PICKED)

lint: $(INSTALLED) ## Style, formatting, types, layers, words, shape
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary --config-file tests/bench/mypy.ini tests/bench
	@$(BIN)/python tools/words.py
	@$(BIN)/python tools/shape.py
	@$(BIN)/lint-imports --no-logo > .venv/layers.txt || { cat .venv/layers.txt; exit 1; }

bench: java $(JARS) ## Measure, against the peers on the same data
	@$(BIN)/python tests/bench

docs: $(INSTALLED) ## Render the documents as a site into build/site
	@test -x build/mkdocs/bin/mkdocs || { $(BIN)/python -m venv build/mkdocs && \
	  build/mkdocs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt; }
	@NO_MKDOCS_2_WARNING=1 build/mkdocs/bin/mkdocs build --quiet
	@echo "build/site/index.html"

package: java $(INSTALLED) ## Packages, Spark and jars in one archive, for machines without network: dist/environment.tar.gz
	@rm -rf build/environment && mkdir -p dist && $(BIN)/python -m venv build/environment
	@build/environment/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/image.txt
	@build/environment/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation .
	@build/environment/bin/python -P -m pipeline.devstack fetch --into build/environment/jars
	@$(BIN)/venv-pack --quiet --force --prefix build/environment --compress-level 1 --output dist/environment.tar.gz
	@rm -rf build/environment
	@ls -sh dist/environment.tar.gz

lock: $(INSTALLED) ## Resolve the newest allowed versions into requirements/, with hashes
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --all-extras \
	  --no-header --no-annotate --no-emit-index-url --output-file requirements/lock.txt \
	  pyproject.toml requirements/lock.in
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra s3 \
	  --no-header --no-annotate --no-emit-index-url --constraints requirements/lock.txt \
	  --output-file requirements/image.txt pyproject.toml requirements/lock.in
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --output-file requirements/docs.txt requirements/docs.in
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --output-file requirements/airflow.txt requirements/airflow.in
	@git diff --stat -- requirements 2>/dev/null || true

clean: ## Remove what was built and measured (not .venv, not the jar cache, not .devstack)
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
	  .demo .bench spark-warehouse metastore_db derby.log
	@find pipeline registry tests -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@$(FIND_PYTHON); PYTHONPATH=. $$python -P pipeline/runtime/java.py

$(INSTALLED): requirements/lock.txt pyproject.toml
	@$(FIND_PYTHON); \
	  echo "installing the locked packages into .venv (1 GB; some minutes the first time)"; \
	  $(BIN)/python -c '$(NEW_ENOUGH)' 2>/dev/null || $$python -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/lock.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e . >.venv/install.log 2>&1 \
	  || { cat .venv/install.log; exit 1; }
	@touch $@

$(JARS): $(INSTALLED) pipeline/runtime/jars/artefacts.sha256 pipeline/runtime/jars/ivy.xml
	@$(BIN)/python -m pipeline.devstack fetch
	@$(BIN)/python -m pipeline.runtime.archiving
	@touch $@
