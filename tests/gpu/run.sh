#!/usr/bin/env bash
# Checks replay on the NVIDIA driver of this machine, with what is installed and no network: builds with cmake, runs the samples,
# the end-to-end tests, CUDA runtime programs and Python stacks, and writes one JSON file of what passed, and a page for
# docs/measured.
#
# usage: tests/gpu/run.sh [--figures] [--only STEP,...] [--seconds S]
#   --figures  what docs/measured lacks in place of the checks: fidelity of 28 kernels, the rate of equal addresses in 200
#              starts, restoring, a held stream, noise. Both take up to 9 minutes; `page.py A.json B.json` joins them.
#   OUT      folder for results.json, page.md and log.txt (default: ./gpu-results)
#   PYTHON   interpreter with numpy, msgpack, typer and cuda-bindings (default: python3)
#   WHEELS   folder of wheels for packages that are missing (default: .whl in the repository, when it is there)
#
# Without an NVIDIA driver it builds and says what it skipped. Exit status: 0 nothing failed, 1 something did.
set -eu
repository=$(cd "$(dirname "$0")/../.." && pwd)
out=${OUT:-$PWD/gpu-results}
mkdir -p "$out"
exec "${PYTHON:-python3}" "$repository/tests/gpu/steps.py" --out "$out" --wheels "${WHEELS:-$repository/.whl}" "$@"
