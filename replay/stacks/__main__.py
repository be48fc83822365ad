"""`eval "$(python -m replay.stacks)"`: what this shell starts runs on the CPU driver, Python stacks included."""

import os
import shlex
import sys

from replay.drivers import find_driver
from replay.errors import ReplayError
from replay.stacks import environment


def main() -> int:
    """Print `export` lines for a POSIX shell. Exit status 3 when the CPU driver is not installed."""
    try:
        driver = find_driver("emulator")
    except ReplayError as error:
        print(f"replay: {error}", file=sys.stderr)
        return int(error.exit_code)
    folder = str(driver.library.parent)
    before = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path and path != folder]
    variables = {"LD_LIBRARY_PATH": ":".join([folder, *before]), **environment(os.environ, driver)}
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
