# Everything a fresh machine needs: python3, make, and gcc or clang. CMake and ninja come as Python wheels.
.DEFAULT_GOAL := help
.PHONY: help setup demo test sanitize lint clean
SHELL := /bin/bash

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
BUILD_TOOLS := $(VENV)/build-tools
# What the installed package is made from. Paths are relative, so the checkout may stand in a folder with a space.
SOURCES := pyproject.toml CMakeLists.txt README.md \
  $(shell find replay interposer emulator submission cmake -type f -not -path '*/__pycache__/*' -not -path '*/_native/*' 2>/dev/null)
# Without this, `python -m` would import replay from the checkout, which has no native libraries beside it.
export PYTHONSAFEPATH := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

help: ## this text
	@echo "replay: capture CUDA kernel launches from a program into one file, and replay them."
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter, JOBS=4 how many tests and compilers run at once."

setup: $(INSTALLED) ## .venv with replay built and installed; done again only when sources changed

$(BUILD_TOOLS): pyproject.toml .ci/tools
	@bash .ci/tools need-python "$(PYTHON)"
	@bash .ci/tools need-compilers
	@bash .ci/tools virtual-environment "$(PYTHON)" "$(VENV)"
	@echo "make: installing the build tools and Python packages into $(VENV)"
	@$(BIN)/python -m pip install -q 'scikit-build-core>=0.10' 'cmake>=3.20' ninja \
	  'nvidia-cuda-runtime>=13' 'nvidia-cuda-runtime-cu12==12.9.*'
	@touch $@

# No build isolation: the build folder stays valid from one build to the next, so only what changed is compiled.
$(INSTALLED): $(BUILD_TOOLS) $(SOURCES)
	@echo "make: building and installing replay (the first time, one to two minutes)"
	@PATH="$(CURDIR)/$(BIN):$$PATH" CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) \
	  $(BIN)/python -m pip install -q --no-build-isolation '.[test,stacks,lint]'
	@touch $@

demo: $(INSTALLED) ## capture and replay two sample programs, and find a slow-down; on the GPU when there is one, else on the CPU driver
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash samples/demo.sh .demo

test: $(INSTALLED) ## the whole test suite
	@$(BIN)/pytest -n $(JOBS) tests

sanitize: $(INSTALLED) ## the tests of the shim, with builds of it under AddressSanitizer, UBSan and ThreadSanitizer
	@for sanitizer in address thread; do \
	  REPLAY_TEST_SANITIZER=$$sanitizer $(BIN)/pytest -n $(JOBS) tests/shim || exit 1; done

lint: $(INSTALLED) ## ruff, mypy --strict, clang-format, and whether generated files are up to date
	@bash .ci/lint $(BIN)

clean: ## remove everything that make made
	rm -rf $(VENV) build .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
