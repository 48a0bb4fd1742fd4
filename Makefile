# make demo, make test: these two set everything up. `make help` lists the rest.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
SHELL := /bin/bash

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow lint types imports format clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

# The environment is made anew when what it is made from changes. The pinned torch is the CPU build where
# one is at hand; the constraint also holds inside pip's isolated build environment, which has no torch.
$(VENV)/.ready: pyproject.toml constraints.txt $(wildcard CMakeLists.txt src/nispa/engine/csrc/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

setup: $(VENV)/.ready  ## make the environment in .venv

demo: setup  ## NISPA on five tasks of handwritten digits, with progress
	rm -rf build/demo
	$(BIN)/nispa run digits --out build/demo

test: setup  ## the test suite (under ten minutes)
	$(BIN)/python -m pytest

test-slow: setup  ## the long tests; those with real data want NISPA_DATA
	$(BIN)/python -m pytest -m slow --timeout=3600

lint: setup  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## static types
	$(BIN)/mypy

imports: setup  ## imports point one way
	$(BIN)/lint-imports

format: setup  ## rewrite to style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what make made
	rm -rf $(VENV) build dist

-include bench.mk
