#!/usr/bin/env bash
# Checks replay on the NVIDIA driver of this machine, with what is installed and no network: builds with cmake, runs the samples,
# the end-to-end tests, CUDA runtime programs and Python stacks, and writes one JSON file of what passed.
#
# usage: tests/gpu/run.sh [--only STEP,...] [--seconds S]
#   OUT      folder for results.json and log.txt (default: ./gpu-results)
#   PYTHON   interpreter with numpy, msgpack, typer and cuda-bindings (default: python3)
#   WHEELS   folder of wheels for packages that are missing (default: .whl in the repository, when it is there)
#
# Without an NVIDIA driver it builds and says what it skipped. Exit status: 0 nothing failed, 1 something did.
set -eu
repository=$(cd "$(dirname "$0")/../.." && pwd)
out=${OUT:-$PWD/gpu-results}
mkdir -p "$out"
exec "${PYTHON:-python3}" "$repository/tests/gpu/steps.py" --out "$out" --wheels "${WHEELS:-$repository/.whl}" "$@"
