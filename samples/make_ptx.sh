#!/usr/bin/env bash
# Makes the PTX beside each sample from its .cu. Needs nvcc; the samples themselves need only the PTX.
# usage: samples/make_ptx.sh [SAMPLE...]
set -euo pipefail
cd "$(dirname "$0")"
nvcc=${NVCC:-nvcc}
# The oldest architecture that CUDA 13 compiles for, and the oldest PTX version that has all that most of these kernels
# use: so every driver from CUDA 11 on takes them, on every GPU from Turing on. A source that needs more says so in a
# line "// target: compute_NN, PTX N.N"; ", with lines" after it keeps the lines of the source.

samples=("$@")
[ ${#samples[@]} -gt 0 ] || samples=(*/*.cu)
for source in "${samples[@]}"; do
  name=$(basename "$source" .cu)
  needs=$(sed -n 's,^// target: compute_\([0-9]*\)\, PTX \([0-9.]*\)\(\, with lines\)\?$,\1 \2\3,p' "$source")
  needs=${needs:-75 7.0}
  lines=()
  [ "${needs%, with lines}" = "$needs" ] || lines=(-lineinfo)
  read -r target ptx_version <<<"${needs%, with lines}"
  (cd "$name" && "$nvcc" -ptx -arch="compute_$target" -O3 "${lines[@]}" -o "$name.ptx" "$name.cu")
  # Folders are those of whoever compiled it.
  sed -i -e 's,^\(\s*\.file.*"\).*/,\1,' "$name/$name.ptx"
  # The header comment names the compiler's build, which changes with every patch release.
  sed -i -e '1,/^\.version/{/^\/\/\|^$/d}' -e "s/^\.version .*/.version $ptx_version/" "$name/$name.ptx"
  if command -v "${nvcc%nvcc}ptxas" >/dev/null; then
    # -c: what the driver links, such as the device runtime, is not there yet.
    "${nvcc%nvcc}ptxas" -c -arch="sm_$target" -o /dev/null "$name/$name.ptx"
  fi
  echo "$name/$name.ptx: $(grep -c ';' "$name/$name.ptx") instructions and declarations"
done
