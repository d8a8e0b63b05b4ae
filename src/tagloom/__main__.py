"""``python -m tagloom``: the command line, for environments whose scripts are not on the path."""

from tagloom.cli import main

if __name__ == "__main__":
    main()
