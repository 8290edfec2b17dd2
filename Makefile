# Everything a developer types. Needs Python 3.11+ and make; nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
SEEDS  ?=
MODULES ?=

.DEFAULT_GOAL := help
.PHONY: help venv demo up down test unit integration faults mutants bench check docs lock sbom

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## .venv from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## the main job on a real Kafka, with a crash in the middle and an audit
	$(BIN)/concord demo

up: $(STAMP) ## Kafka and Postgres on this machine, without Docker
	$(BIN)/concord dev up

down: $(STAMP) ## stop them
	$(BIN)/concord dev down

test: $(STAMP) ## every test but the long fault runs; two files at a time, each process with servers of its own
	$(BIN)/python -m pytest -n 2 --dist loadfile

unit: $(STAMP) ## tests that need no service
	$(BIN)/python -m pytest tests/unit tests/property $(wildcard tests/scenarios) tests/mutation tests/test_tidy.py

integration: $(STAMP) ## tests on a real Kafka
	$(BIN)/python -m pytest tests/integration

faults: $(STAMP) ## seeded fault runs, toy and payments in turn; SEEDS="7 11" repeats some
	$(BIN)/python -m tests.faults.run $(if $(SEEDS),--seeds "$(SEEDS)")

mutants: $(STAMP) ## every small change of the law must fail a test; MODULES="gate balance" tries some
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint requirements.lock cosmic-ray==8.7.0
	$(BIN)/python -m tests.mutation.run $(MODULES)

bench: $(STAMP) ## the benchmarks of docs/benchmarks.md
	$(BIN)/python -m tests.benchmarks.run

check: $(STAMP) ## ruff, mypy, import contracts, tidy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q tests/test_tidy.py

docs: $(STAMP) ## write the generated pages again
	$(BIN)/concord docs write

lock: $(STAMP) ## requirements.lock from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 --all-extras --custom-compile-command "make lock" pyproject.toml -o requirements.lock

sbom: $(STAMP) ## sbom.json: every dependency with its hashes, as CycloneDX
	$(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py requirements requirements.lock --output-format JSON --output-file sbom.json
