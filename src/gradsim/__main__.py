"""`python -m gradsim`: the command `gradsim`, also where its script is not on the path."""

import sys

from gradsim.app.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
