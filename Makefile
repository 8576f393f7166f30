# Nothing has to be set up by hand: every target below first makes `.venv` and
# installs exactly what uv.lock names. ARGS goes through to the program that runs
# (`make bench` runs several, and takes none).

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MIN_MINOR := 11
CANDIDATES := python3.14 python3.13 python3.12 python3.11 python3 python
FITS := import sys; sys.exit(sys.version_info < (3, $(MIN_MINOR)))
# Debian ships `venv` without `ensurepip` until python3-venv is installed, so ask for both.

PYTHON ?= $(shell for python in $(CANDIDATES); do \
	if "$$python" -c '$(FITS)' && "$$python" -c 'import ensurepip, venv'; then \
		echo "$$python"; break; fi; done 2>/dev/null)

# The tests start hundreds of interpreters: they load what was compiled once, even where the environment forbids to keep it.

unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
STAMP := .venv/.synced

.PHONY: help race test lint soak bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' Makefile

race: $(STAMP) ## watch a race: several transports against a censored network on loopback
	@$(BIN)/python -m benchmarks.demo $(ARGS)

test: $(STAMP) ## run the tests
	@$(BIN)/pytest -n 2 --dist loadfile $(ARGS)

lint: $(STAMP) ## check format, style, types and who imports whom
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

soak: $(STAMP) ## run the long tests for leaks and rare interleavings, and fuzz for longer
	@$(BIN)/pytest --timeout 1200 -m soak $(ARGS)
	@$(BIN)/pytest -n 2 --dist loadfile --timeout 1200 --hypothesis-profile soak -m "hypothesis and not soak" $(ARGS)

bench: $(STAMP) ## measure races, Soar, and what racer costs: figures and pictures
	@mkdir -p benchmarks/out; failed=; \
	for run in race soar overhead "http --json benchmarks/out/http.json"; do \
		echo; echo "== python -m benchmarks.$${run%% *} --quick"; echo; \
		$(BIN)/python -m benchmarks.$${run%% *} --quick $$(echo "$$run" | cut -s -d' ' -f2-) \
			|| failed="$$failed $${run%% *}"; \
	done; \
	echo; echo "Figures and pictures lie in benchmarks/out; docs/benchmarks.md tells how to read them."; \
	if [ -n "$$failed" ]; then echo "make: not measured, for the reasons above:$$failed" >&2; exit 1; fi

clean: ## remove .venv, caches and build output
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf build dist htmlcov .coverage .coverage.* benchmarks/out
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): $(BIN)/uv pyproject.toml uv.lock
	@UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON_DOWNLOADS=never $(BIN)/uv sync --locked --quiet
	@touch $@

$(BIN)/uv:
	@if [ -z "$(PYTHON)" ]; then \
		for python in $(CANDIDATES); do \
			if "$$python" -c '$(FITS)' 2>/dev/null; then \
				echo "make: $$python cannot make virtual environments (no venv or ensurepip)." >&2; \
				echo "make: on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; fi; done; \
		echo "make: Python 3.$(MIN_MINOR) or later is needed; none of these is one: $(CANDIDATES)" >&2; \
		echo "make: install one, or name it: make PYTHON=/path/to/python3 ..." >&2; exit 1; fi
	@"$(PYTHON)" -c '$(FITS)' || { \
		echo "make: $(PYTHON) is not Python 3.$(MIN_MINOR) or later" >&2; exit 1; }
	@"$(PYTHON)" -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
