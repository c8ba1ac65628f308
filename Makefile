.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
# A user who wants CPU-only torch wheels: make setup TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
PIP_ARGS := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX),)

.PHONY: help setup demo test test-slow lint fmt generate check bench clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready ## Make .venv from the lock (TORCH_INDEX=URL for other torch wheels)

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip setuptools wheel
	$(BIN)/pip install --quiet $(PIP_ARGS) -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

demo: setup ## Watch a real MoE engine drift, be caught, be rolled back (ARGS="--headless ...")
	$(BIN)/trimtab demo $(ARGS)

test: setup ## Run the whole suite (ARGS="-k name")
	$(BIN)/python -m pytest $(ARGS)

test-slow: setup ## Run the tests that take minutes
	$(BIN)/python -m pytest -m slow --timeout 900 $(ARGS)

lint: setup ## Ruff, format check, mypy, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: setup ## Format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: setup ## Build dashboards, alerts, the glossary and the list of settings
	$(BIN)/trimtab dashboards build
	$(BIN)/trimtab alerts build
	$(BIN)/python -c "from controlplane.web.glossary import markdown; print(markdown(), end='')" > docs/glossary.md
	$(BIN)/python -c "from trimtab.settings_reference import markdown; print(markdown(), end='')" > docs/settings.md

check: lint test ## All that CI holds a change to

bench: setup ## Run every benchmark and write docs/benchmarks.md
	$(BIN)/trimtab bench all $(ARGS)

clean: ## Remove what setup and runs have made
	rm -rf $(VENV) var build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
