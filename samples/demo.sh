#!/usr/bin/env bash
# The demonstration behind `make demo`: captures one launch of a C program and one of a Python program, and replays both.
# usage: samples/demo.sh FOLDER    with `replay` on PATH; FOLDER is made anew
set -euo pipefail
folder=${1:?usage: samples/demo.sh FOLDER}
samples=$(cd "$(dirname "$0")" && pwd)

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

# KERNEL SNAPSHOT PROGRAM...: captures the second launch, shows what is in the file, replays it.
capture_and_replay() {
  local kernel=$1 snapshot=$2
  shift 2
  show replay capture --kernel "^$kernel\$" --launch 2 -o "$snapshot" -- "$@"
  show replay info "$snapshot"
  show replay run "$snapshot" | tee "$folder/replay.txt"
  grep -q "outputs match" "$folder/replay.txt"
}

rm -rf "$folder"
mkdir -p "$folder"
python -I -c '
from replay.drivers import find_driver

driver = find_driver()
if driver.emulated:
    print("No NVIDIA driver here: all of this runs on the built-in CPU driver; its times are modelled, not measured.")
else:
    print(f"All of this runs on the GPU, with the NVIDIA driver {driver.library}.")
'
${MAKE:-make} -s -C "$samples" OUT="$(cd "$folder" && pwd)"
capture_and_replay vector_add "$folder/vector_add.rsnap" "$folder/vector_add"
capture_and_replay saxpy "$folder/saxpy.rsnap" python "$samples/saxpy/saxpy.py"
printf '\nBoth replayed, outputs match. The snapshots are in %s.\n' "$folder"
