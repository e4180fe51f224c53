"""`python -m lecture_lib …` is the `lecture` command, for shells that do not find it by name."""

import sys

from lecture_lib.cli import main

if __name__ == "__main__":
    sys.exit(main())
