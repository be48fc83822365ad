#!/usr/bin/env bash
# The demonstration of `make demo`: captures one launch of a C program and one of a Python program, replays both, and
# on the CPU driver finds a slow-down and the build that brought it.
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

# What a slow-down looks like: one that the CPU driver injects, so that everybody sees the same.
if python -I -c 'import sys; from replay.drivers import find_driver; sys.exit(not find_driver().emulated)'; then
  injected=REPLAY_EMULATOR_SLOWDOWN=vector_add
  for build in 1 2 3 4 5 6 7 8; do
    echo "env=$injected:$([ "$build" -lt 6 ] && echo 1.00 || echo 1.03) env=BUILD=$build"
  done >"$folder/builds.txt"
  show replay compare "$folder/vector_add.rsnap" --b "env=$injected:1.03" -o "$folder/compare.json" | tee "$folder/compare.txt"
  grep -q '^SLOWER' "$folder/compare.txt"
  show replay bisect "$folder/vector_add.rsnap" --over "list=$folder/builds.txt" -o "$folder/bisect.json" | tee "$folder/bisect.txt"
  grep -q '^first bad: .*BUILD=6' "$folder/bisect.txt"
  show replay report "$folder/compare.json" "$folder/bisect.json" -o "$folder/page.html"
  # What no replay shows: outputs that match all the same.
  replay capture --kernel running_sums --launch 1 -o "$folder/sums.rsnap" -- "$folder/missing_barrier" >/dev/null
  found=0
  show replay check-memory "$folder/sums.rsnap" -q | tee "$folder/race.txt" || found=$?
  test "$found" = 1
  grep -q 'missing_barrier.cu:14.*missing_barrier.cu:17' "$folder/race.txt"
  printf '\nA page of it, to be opened in a browser: %s\n' "$folder/page.html"
fi
printf '\nBoth replayed, outputs match. The snapshots are in %s.\n' "$folder"
