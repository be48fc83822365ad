"""`python -m replay`, and the console script."""

import gc
import signal
import sys

# Of cyclic garbage: imports make none, and looking for it took an eighth of the time of a short command.
OBJECTS_BETWEEN_COLLECTIONS = 50_000


def run() -> int:
    """The command of this process; its exit code. An interrupt counts while modules are still being imported, and no
    more when the command has ended."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        from replay.cli import main

        code = main()
    except KeyboardInterrupt:
        print("replay: stopped", file=sys.stderr)
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(run())
