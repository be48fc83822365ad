"""Where things of these tests are. Some tests borrow from one another, and scripts from the test they belong to: their
rooms are on the path of modules, so no two files of these rooms have one name."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
REPOSITORY = TESTS.parents[1]
KERNELS = TESTS / "kernels"
RUNTIME_PROGRAMS = TESTS / "runtime_programs"
MODULE_PATH = [str(Path(__file__).parent), *sorted({str(file.parent) for file in TESTS.glob("*/test_*.py")})]
