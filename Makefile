# `make` lists the commands. They need Python 3.11 or newer, and nothing else that they do not
# bring themselves: no git, no Java, no compiler.

PYTHON ?= python3
# The environment everything runs in.
VENV := .venv
BIN := $(VENV)/bin
# Touched when the environment is complete, so that setup runs again only when its inputs change.
READY := $(VENV)/.ready
# The environment of what the benchmark of keyed state compares with.
PEERS := .venv-peers
# More arguments for a benchmark, for example: make bench-state BENCH_ARGS="--only growth"
BENCH_ARGS ?=
# Test processes side by side; each starts its own Spark.
WORKERS ?= 2
# More arguments for pytest, for example: make test PYTEST_ARGS="-k ledger"
PYTEST_ARGS ?=
UV ?= uv

# Twice quiet: errors only.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check
SOURCES := src tests $(wildcard bench)

# Debian's names for what the PostgreSQL tests use, and how to see that it is there.
SERVER_PACKAGES := postgresql libpostgresql-jdbc-java
POSTGRES := $(firstword $(wildcard /usr/lib/postgresql/*/bin/initdb))
POSTGRES_JDBC := $(wildcard /usr/share/java/postgresql.jar)

.DEFAULT_GOAL := help
.PHONY: help setup run test test-servers lint format bench bench-state bench-stream crash lock clean

help: ## List the commands
	@echo "Usage: make <command>"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf '%-16s%s\n' "$$name" "$$text"; done

setup: $(READY) ## Make the environment in .venv: the locked dependencies and Holdfast itself
	@:

$(READY): requirements/build.txt requirements/dev.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
		echo "No '$(PYTHON)' found. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3"; \
		exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Holdfast needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
		echo "Name another one: make PYTHON=/path/to/python3"; \
		exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		echo "Making the environment in $(VENV)..."; \
		$(PYTHON) -m venv --clear $(VENV) || { \
			echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu: apt-get install python3-venv"; \
			exit 1; }; }
	@echo "Installing dependencies (about 2 minutes the first time)..."
	@# The build tools come first, locked as well: pyspark is published as source only, and without
	@# --no-build-isolation pip would build it with whatever setuptools is newest that day.
	@$(PIP_INSTALL) --require-hashes -r requirements/build.txt
	@$(PIP_INSTALL) --require-hashes --no-build-isolation -r requirements/dev.txt
	@echo "Installing Holdfast..."
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(READY)
	@echo "Ready."

run: setup ## Run the demonstration: replicate a small shop, change it, replicate again
	@$(BIN)/holdfast demo

# A missing server skips its tests on a contributor's machine. CI must not skip them.
test: $(if $(CI),test-servers) setup lint ## Check the code and run the tests
	@echo "Running the tests..."
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS)

test-servers: ## Install PostgreSQL and its JDBC driver, for the tests that use them
ifneq ($(and $(POSTGRES),$(POSTGRES_JDBC)),)
	@echo "PostgreSQL and its JDBC driver are installed."
else
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "Installing $(SERVER_PACKAGES)..."; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get update -qq && \
		apt-get install -qq -y --no-install-recommends $(SERVER_PACKAGES) >/dev/null; \
	else \
		echo "The PostgreSQL tests need a server and its JDBC driver."; \
		echo "On Debian and Ubuntu, as root: apt-get install $(SERVER_PACKAGES)"; \
	fi
endif

lint: setup ## Check style, types and the direction of imports
	@echo "Checking style, types and imports..."
	@$(BIN)/ruff check --quiet $(SOURCES)
	@$(BIN)/ruff format --quiet --check $(SOURCES) || { echo "Run: make format"; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

format: setup ## Format the code and sort its imports
	@$(BIN)/ruff check --quiet --select I --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

bench: setup ## Compare replication with a hand-written PySpark loop
	@$(BIN)/python -m bench.replicate

bench-state: setup $(PEERS)/.ready ## Compare keyed state with bare NumPy, RocksDB and others (about 10 minutes)
	@$(BIN)/python -m bench.state --peers $(PEERS)/bin/python $(BENCH_ARGS)

bench-stream: setup ## Compare a stream with plain foreachBatch, and run a thousand epochs (about 8 minutes)
	@$(BIN)/python -m bench.stream $(BENCH_ARGS)

# quixstreams wants older libraries than Holdfast: it has an environment of its own.
$(PEERS)/.ready: requirements/peers.txt
	@echo "Making the environment of the others in $(PEERS)..."
	@$(PYTHON) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install -qq --no-input --disable-pip-version-check \
		--require-hashes -r requirements/peers.txt
	@touch $@

crash: setup ## Run the long crash campaign
	@$(BIN)/python -m pytest -m campaign $(PYTEST_ARGS)

# The hashes are those of every platform's files, and no index is named: the files serve anywhere.
LOCK = $(UV) pip compile --quiet --no-config --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

lock: ## Choose the newest dependencies again and write requirements/ (needs uv)
	@command -v $(UV) >/dev/null || { echo "'$(UV)' not found. Install it with: pip install uv"; exit 1; }
	@$(LOCK) pyproject.toml --all-extras --group dev --output-file requirements/dev.txt
	@# The same versions as above, for the three that have to be there before the rest.
	@printf '%s\n' hatchling setuptools wheel | \
		$(LOCK) - --constraints requirements/dev.txt --no-annotate --output-file requirements/build.txt
	@printf '%s\n' numpy quixstreams | $(LOCK) - --no-annotate --output-file requirements/peers.txt

clean: ## Remove the environment, the caches and what was built
	@rm -rf $(VENV) $(PEERS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@rm -rf spark-warehouse metastore_db derby.log
	@find src tests $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +
