"""`python -m replay`, and the console script."""

import signal
import sys


def run() -> int:
    """The command of this process; its exit code. An interrupt counts while modules are still being imported, and no
    more when the command has ended."""
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
