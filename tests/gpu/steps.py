"""The steps of tests/gpu/run.sh, in order. Needs the standard library only; what it tests needs more."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # which Python leaves out with PYTHONSAFEPATH

from checks.capturing import (  # noqa: E402
    array_steps,
    end_to_end_steps,
    incremental_step,
    memory_steps,
    overhead_step,
    runtime_steps,
    sample_steps,
    stack_steps,
)
from checks.claiming import claim_steps  # noqa: E402
from checks.figures import fidelity_steps, hold_step, noise_step, rate_step  # noqa: E402
from checks.replaying import (  # noqa: E402
    cross_step,
    export_step,
    output_step,
    profiler_steps,
    shift_steps,
    start_step,
    timing_step,
    variant_step,
    verdict_steps,
    window_step,
)
from checks.surroundings import (  # noqa: E402
    address_step,
    build_step,
    driver_step,
    environment_step,
    error_step,
    fault_step,
    instruction_step,
    matrix_step,
    packages_step,
    tensor_map_step,
    tensor_memory_step,
    texture_step,
)
from machine import REPOSITORY, Machine  # noqa: E402
from page import page  # noqa: E402
from record import Record  # noqa: E402

TOTAL_S = 520.0
FIRST = ("environment", "packages", "driver", "build")
FIGURES: dict[str, Callable[[Machine], None]] = {
    "hold": hold_step,
    "fidelity": fidelity_steps,
    "rate": rate_step,
    "noise": noise_step,
}
# What would hurt most if it were false comes first; a step costs the others nothing but time.
STEPS: dict[str, Callable[[Machine], None]] = {
    "environment": environment_step,
    "packages": packages_step,
    "driver": driver_step,
    "build": build_step,
    "addresses": address_step,
    "claims": claim_steps,
    "samples": sample_steps,
    "starts": start_step,
    "memory": memory_steps,
    "stacks": stack_steps,
    "runtime": runtime_steps,
    "outputs": output_step,
    "timing": timing_step,
    "windows": window_step,
    "verdicts": verdict_steps,
    "faults": fault_step,
    "instructions": instruction_step,
    "matrices": matrix_step,
    "tensor-memory": tensor_memory_step,
    "errors": error_step,
    "overhead": overhead_step,
    "shift": shift_steps,
    "arrays": array_steps,
    "textures": texture_step,
    "tensor-maps": tensor_map_step,
    "cross": cross_step,
    "variants": variant_step,
    "export": export_step,
    "profilers": profiler_steps,
    "incremental": incremental_step,
    "end-to-end": end_to_end_steps,
}


def main() -> int:
    """Run the steps and return an exit status: 0 nothing failed, 1 something did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for results.json and log.txt")
    parser.add_argument(
        "--wheels", type=Path, default=REPOSITORY / ".whl", help="folder of wheels to install from"
    )
    every = {**STEPS, **FIGURES}
    parser.add_argument("--only", help=f"some of: {', '.join(every)}")
    parser.add_argument(
        "--figures", action="store_true", help="what docs/measured lacks, in place of the checks"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=TOTAL_S,
        help="no step begins after this time; longer than the default, every command gets more in proportion",
    )
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else []
    if unknown := [name for name in chosen if name not in every]:
        parser.error(f"no step {unknown[0]}; there are {', '.join(every)}")
    chosen = chosen or ([*FIRST, "addresses", *FIGURES] if options.figures else list(STEPS))

    record = Record(options.out.resolve(), options.seconds, max(1.0, options.seconds / TOTAL_S))
    with tempfile.TemporaryDirectory(prefix="replay-gpu-") as work:
        machine = Machine(record, Path(work), options.wheels)
        for name in chosen:
            every[name](machine)
    record.write()
    (options.out / "page.md").write_text(page([record.content()]), encoding="utf-8")
    print(f"{options.out}/results.json and page.md written", flush=True)
    return int(record.failed)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)  # what is preloaded here must not reach the programs under test
    sys.exit(main())
