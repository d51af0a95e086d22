PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ECOSYSTEM := .venv-ecosystem
PUBLISHING := .venv-dist
INSTALLED := .venv-wheel
INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt
PIP := $(BIN)/python $(INSTALL)
ECOSYSTEM_PIP := $(ECOSYSTEM)/bin/python $(INSTALL)
INSTALLED_PIP := $(INSTALLED)/bin/python $(INSTALL)
EXTRAS := vision text adapters hub tables export track slurm docs dev
SOURCES := src tests benchmarks examples research
# One process per core; each computes on one thread (tests/conftest.py).
PARALLEL := -m pytest -n logical --dist worksteal
PYTEST := $(BIN)/python $(PARALLEL)
# References in the tests that ask for torchvision, which they do not use; what they do
# use is in the extra dev.
REFERENCES := "curvlinops-for-pytorch>=3" "backpack-for-pytorch>=1.7"

# What the suite says of a package as its users have it: models, training, scores,
# predictions, the page, the command line.
CORE := tests/test_wheel.py tests/test_public_api.py \
	tests/core tests/ensembles tests/evaluation tests/methods tests/metrics \
	tests/models tests/report tests/training/test_fit.py tests/cli/test_main.py

.PHONY: demo test test-all test-gpu test-faults test-ecosystem test-wheel lint types
.PHONY: docs bench format dist clean oracle mutations

demo: $(VENV)/.installed ## train and compare ensembles on the embedded data set
	$(BIN)/tepui compare --set at_once=2 threads=2 $(ARGS)

test: $(VENV)/.dev lint types ## lint, types and all tests but the slow ones
	$(PYTEST) $(ARGS)

test-all: $(VENV)/.dev lint types ## the slow tests too, and what no test reaches
	$(PYTEST) -m "slow or not slow" --cov --cov-report=term $(ARGS)

# With an interpreter that sees a CUDA device. PACKAGES may name a folder that pip filled
# with --target, so that pytest is the pinned one where nothing can be installed.
test-gpu: ## the tests marked gpu: make test-gpu PYTHON=python3 PACKAGES=folder
	PYTHONPATH=$(PACKAGES):src:tests $(PYTHON) -m pytest -m gpu \
		$$(grep -rlw gpu tests --include="test_*.py") $(ARGS)

oracle: $(VENV)/.dev ## bits and numbers beside those of the commit in oracle.txt
	$(BIN)/python tests/exam/oracle.py $(ARGS)

mutations: $(VENV)/.dev ## the exam's mutations once more: is each caught?
	$(BIN)/python tests/exam/mutate.py $(ARGS)

test-faults: $(VENV)/.dev ## kills, full disks, damaged files: any seeds, totals kept
	PYTHONPATH=src:tests $(BIN)/python -m faults --totals research/reliability.json $(ARGS)

# All tests of other libraries, too, that would be skipped where those are missing.
test-ecosystem: $(ECOSYSTEM)/.installed ## every extra, and tests beside other libraries
	TEPUI_ECOSYSTEM=1 $(ECOSYSTEM)/bin/python $(PARALLEL) -m "slow or not slow" \
		tests/ecosystem tests/test_site.py \
		$$(grep -rl importorskip tests --include="test_*.py" --exclude-dir=ecosystem) \
		$(ARGS)

# What is tested lies in site-packages: nothing puts src/ on the path.
test-wheel: dist ## the core of the suite against the wheel, in a fresh environment
	$(PYTHON) -m venv --clear $(INSTALLED)
	$(INSTALLED_PIP) torch
	$(INSTALLED_PIP) "$$(ls dist/*.whl)[dev]"
	TEPUI_WHEEL=1 $(INSTALLED)/bin/python -m pytest -n logical --dist worksteal \
		$(CORE) $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/python tests/weight.py

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.docs ## build the site into site/, with the pages of results
	$(BIN)/python docs/make_results.py
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

dist: $(PUBLISHING)/.installed ## build wheel and sdist into dist/, and check them
	rm -rf dist
	$(PUBLISHING)/bin/python -m build
	$(PUBLISHING)/bin/twine check --strict dist/*
	$(PUBLISHING)/bin/check-wheel-contents dist/*.whl
	$(PUBLISHING)/bin/cffconvert --validate

# Away from .venv, whose versions these tools would change.
$(PUBLISHING)/.installed: Makefile
	$(PYTHON) -m venv $(PUBLISHING)
	$(PUBLISHING)/bin/python $(INSTALL) "build>=1.2" "twine>=6" \
		"check-wheel-contents>=0.6" "cffconvert>=2"
	touch $@

clean:
	rm -rf $(VENV) $(ECOSYSTEM) $(PUBLISHING) $(INSTALLED) .oracle dist site .coverage
