# Everything runs inside .venv, which `make install` creates. PYTHON chooses the interpreter (3.11 or later).
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install serve test check bench clean

# The package with everything its tests need.
install: .venv/tests-installed

# Rebuilt when the package's description or its C++ changes; Python sources are used in place.
.venv/installed: pyproject.toml CMakeLists.txt $(wildcard src/halfline/native/csrc/*)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/tests-installed: .venv/installed
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

# Only the base install: a user who serves needs neither torch nor a test runner.
serve: .venv/installed
	$(BIN)/halfline serve

test: check
	$(BIN)/pytest

check: install
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/pure -q

bench: install
	$(BIN)/halfline bench

clean:
	rm -rf .venv build dist
