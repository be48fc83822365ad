"""`python -m replay`: the same command as the console script."""

import sys

from replay.cli import main

if __name__ == "__main__":
    sys.exit(main())
