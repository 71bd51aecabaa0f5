"""`python -m dpsim.cli` runs the command `dpsim`."""

from dpsim.cli.ending import main

if __name__ == "__main__":
    main()
