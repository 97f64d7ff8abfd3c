# Everything runs in .venv, which is made on first use. `make` alone lists the commands.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOO_OLD := Potluck needs Python 3.11 or newer. Name one, for example: make install PYTHON=python3.12
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Few samples per client, and classes in common: docs/collaboration.md says how this setting was chosen.
DEMO := --clients 100 --partition pathological:5 --fraction 0.2 --models cnn-3..5 --rounds 30 --seeds 0 \
	--set epochs=2 --set batch_size=16 --set momentum=0.9 --set learning_rate=0.02 \
	--set pfedes.extractor_epochs=1 --set pfedafm.learning_rate=0.05 --set pfedafm.mixer_learning_rate=1

.PHONY: help install dev demo bench bench-data bench-report lint types check format test test-attack clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## make .venv and install Potluck into it

dev: $(VENV)/.installed-dev ## the same, with the tools for development

demo: install ## a hundred clients with three different networks: each alone, then together by pFedES and pFedAFM
	rm -rf runs/demo
	$(BIN)/potluck compare standalone pfedes pfedafm $(DEMO) --out runs/demo
	@echo
	@echo "Collaboration pays where clients have few samples and classes in common, as here."
	@echo "Where each has many samples of two classes, training alone is as good:"
	@echo "    $(BIN)/potluck compare standalone pfedes pfedafm"
	@echo "docs/collaboration.md has the figures for both."

bench-data: install ## how long data take to load, to deal and to augment, one image at a time for comparison
	$(BIN)/python -m benchmarks.data

bench-report: dev ## how long a report of ten long runs takes, and how large its page is
	$(BIN)/python -m benchmarks.report

bench: install ## how long rounds take on each engine, in research code, with more clients, and side by side
	$(BIN)/python -m benchmarks.engines
	$(BIN)/python -m benchmarks.clients
	$(BIN)/python -m benchmarks.side_by_side

lint: dev ## rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: dev ## strict types
	$(BIN)/mypy

check: lint types ## lint and types

format: dev ## format the code, and fix what rules can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: check ## lint, types, then all tests and the examples in the docstrings
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-attack: dev ## damage files, interfere with runs, kill them, send what no client would: minutes, not part of test
	PYTHONPATH=tests $(BIN)/python -m attack

clean: ## remove the environment, caches and builds; results in runs/ stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is made last, so that an interrupted installation is done again, and is older than a changed pyproject.toml.
$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(TOO_OLD)")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install -e '.[dev]'
	@touch $@
