PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ECOSYSTEM := .venv-ecosystem
INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt
PIP := $(BIN)/python $(INSTALL)
ECOSYSTEM_PIP := $(ECOSYSTEM)/bin/python $(INSTALL)
EXTRAS := vision text hub parquet export track slurm docs dev
SOURCES := src tests benchmarks examples
# One process per core; each computes on one thread (tests/conftest.py).
PARALLEL := -m pytest -n logical --dist worksteal
PYTEST := $(BIN)/python $(PARALLEL)
# References in the tests that ask for torchvision, which they do not use; what they do
# use is in the extra dev.
REFERENCES := "curvlinops-for-pytorch>=3" "backpack-for-pytorch>=1.7"

.PHONY: demo test test-all test-faults test-ecosystem lint types docs bench format clean

demo: $(VENV)/.installed ## train and compare ensembles on the embedded data set
	$(BIN)/tepui compare $(ARGS)

test: $(VENV)/.dev lint types ## lint, types and all tests but the slow ones
	$(PYTEST) $(ARGS)

test-all: $(VENV)/.dev lint types ## the slow tests too, and what no test reaches
	$(PYTEST) -m "slow or not slow" --cov --cov-report=term $(ARGS)

test-faults: $(VENV)/.dev ## kills, full disks, damaged files: any seeds, totals kept
	PYTHONPATH=src:tests $(BIN)/python -m faults --totals docs/reliability.json $(ARGS)

# All tests of other libraries, too, that would be skipped where those are missing.
test-ecosystem: $(ECOSYSTEM)/.installed ## every extra, and tests beside other libraries
	TEPUI_ECOSYSTEM=1 $(ECOSYSTEM)/bin/python $(PARALLEL) -m "slow or not slow" \
		tests/ecosystem $$(grep -rl importorskip tests --include="test_*.py" \
		--exclude-dir=ecosystem) $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.docs ## build the site into site/
	$(BIN)/mkdocs build --strict

bench: ## measure with the interpreter given: make bench PYTHON=python3
	PYTHONPATH=src $(PYTHON) benchmarks/training_step.py $(ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# First and alone: other packages must not choose another build of torch.
$(VENV)/.torch: constraints.txt | $(BIN)/python
	$(PIP) torch
	touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.torch
	$(PIP) --editable .
	touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.torch
	$(PIP) --editable ".[dev]"
	$(PIP) --no-deps $(REFERENCES)
	$(PIP) "ray[tune]>=2.52" || echo "no Ray for this machine: its tests are skipped"
	touch $@

$(VENV)/.docs: pyproject.toml $(VENV)/.torch
	$(PIP) --editable ".[docs]"
	touch $@

# Torch first, then one extra after the other, so that each is known to install; at last
# what tests compare with. What would bring torchvision comes without what it asks for.
$(ECOSYSTEM)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ECOSYSTEM)
	$(ECOSYSTEM_PIP) torch
	for extra in $(EXTRAS); do \
		echo "tepui[$$extra]"; $(ECOSYSTEM_PIP) --editable ".[$$extra]" || exit 1; \
	done
	$(ECOSYSTEM_PIP) --editable ".[ray]" || echo "no Ray for this machine"
	$(ECOSYSTEM_PIP) "lightning>=2.5" "accelerate>=1.8" "pytorch_optimizer>=3.5"
	$(ECOSYSTEM_PIP) "kubernetes-validate>=1.31"
	$(ECOSYSTEM_PIP) --no-deps "timm>=1.0" "torch-uncertainty>=0.13" "pytorch-ood>=0.4" \
		$(REFERENCES)
	touch $@

clean:
	rm -rf $(VENV) $(ECOSYSTEM) site .coverage
