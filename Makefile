# Every command works in a fresh checkout: what it needs is set up first, in .venv and in the model cache.
PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
# Many tests wait for processes: two at a time fill two cores. A file's tests stay together, for they share what is slow.
PYTEST := $(VENV_PYTHON) -m pytest -n 2 --dist loadfile
.DEFAULT_GOAL := help
.PHONY: help setup setup-gemma up down demo test test-fast test-full browser screenshots chaos mutants lint typecheck format bench clean

help: ## Show these commands
	@grep -E '^[a-z-]+:.*## ' Makefile | while IFS= read -r line; do \
		printf '  make %-12s %s\n' "$${line%%:*}" "$${line##*## }"; done

setup: ## Make .venv, install the pinned packages, prepare the demo model
	@$(PYTHON) scripts/setup.py

setup-gemma: ## Also prepare the second model, Gemma 3 270M
	@$(PYTHON) scripts/setup.py --gemma

up: setup ## Run the service on this machine until Ctrl-C (see docs/standalone.md)
	@$(VENV_PYTHON) -m deploy.standalone up

down: setup ## Stop what make up started
	@$(VENV_PYTHON) -m deploy.standalone down

demo: setup ## Profile the demo model through the service and show the domain map
	@$(VENV_PYTHON) scripts/demo.py

browser: setup ## Install Chromium for the browser tests, where root may do so with apt
	@$(VENV_PYTHON) scripts/browser.py

test: setup browser ## Run the tests, real demo model included
	@$(PYTEST) -m "not slow"

test-fast: setup ## Run the library's quick tests, which need no model
	@$(PYTEST) -m "not slow and not thorough and not model and not service"

test-full: setup browser ## Run all tests, long ones too
	@$(PYTEST)

screenshots: setup ## Take pictures of the dashboard's pages, from what the demo found
	@$(VENV_PYTHON) scripts/screenshots.py

chaos: setup ## Kill, freeze and restart everything at random for ten minutes while jobs run
	@$(VENV_PYTHON) -m tests.workers.chaos --seconds 600

mutants: setup ## Take away, one at a time, what keeps the service correct; a test must notice each
	@$(VENV_PYTHON) scripts/mutants.py

lint: setup ## Check style, formatting and the direction of imports
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@.venv/bin/lint-imports

typecheck: setup ## Check types (mypy, strict)
	@$(VENV_PYTHON) -m mypy

format: setup ## Format the code and sort imports
	@$(VENV_PYTHON) -m ruff check --fix-only .
	@$(VENV_PYTHON) -m ruff format .

bench: setup ## Run the benchmarks
	@$(VENV_PYTHON) -m benchmarks

clean: ## Remove .venv and all that is made here; results in runs/ and the model cache stay
	@rm -rf .venv .setup build dist web/frontend/node_modules web/static .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
