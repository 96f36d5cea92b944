# Each target sets up what it needs: a virtual environment in .venv, nothing outside the checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
BENCH_STAMP := $(VENV)/.bench-ready

.PHONY: demo test test-slow bench docs lint format clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]' --group dev
	touch $@

$(BENCH_STAMP): $(STAMP)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --group bench
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# Three processes for two cores: many tests wait for others.
test: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

# The same tests, the slow ones at full length.
test-slow: $(STAMP)
	BRANT_KILLS=300 BRANT_JOBS=10000 BRANT_DRIVER_KILLS=20 BRANT_INBOX_KILLS=50 BRANT_EVERYWHERE=1 BRANT_WAKE_UPS=10000 BRANT_MESSAGES=500 BRANT_MODEL_EXAMPLES=2000 BRANT_ORACLE_EXAMPLES=1500 BRANT_POSTGRES_JOBS=20000 BRANT_POSTGRES_RESTARTS=5 BRANT_POSTGRES_KILL_S=60 $(BIN)/python -m pytest -n 2 --dist worksteal --timeout 1800 $(ARGS)

bench: $(BENCH_STAMP)
	$(BIN)/python -m bench $(ARGS)

docs: $(STAMP)
	$(BIN)/python -m brant.cli.manual markdown > docs/shell.md
	$(BIN)/python -m brant.cli.manual man > docs/brant.1
	$(BIN)/python -m brant.inbox.manual docs/providers

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
