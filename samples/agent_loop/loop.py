"""Tries given candidates for a captured kernel and keeps the fastest that is right: the loop of an agent, without one.

    python loop.py matmul.rsnap candidates/*.cu

Where an agent is to write the next candidate, it reads `found.hint`, and `found.where` or `found.error` of what failed.
"""

import argparse
import sys

import replay


def main() -> int:
    """0 where a candidate is faster than the captured kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot")
    parser.add_argument("candidates", nargs="+")
    parser.add_argument("--driver")
    given = parser.parse_args()
    best, best_ratio = None, 1.0
    with replay.open(given.snapshot).session(driver=given.driver, quick=True, timeout_s=60) as session:
        for candidate in given.candidates:
            found = session.evaluate(candidate)
            print(
                f"{candidate}: {found.verdict}" + (f", {found.ratio:.3f} of its time" if found.ratio else "")
            )
            if found.error is not None:
                print(f"  {found.error.kind}: {found.error.what}")
            elif not found.correct:
                print(f"  {found.where}")
            print(f"  {found.hint}")
            if found.verdict == "FASTER" and found.ratio < best_ratio:
                best, best_ratio = candidate, found.ratio
    print(f"best: {best or 'the captured kernel'}, {best_ratio:.3f}")
    return 0 if best else 1


if __name__ == "__main__":
    sys.exit(main())
