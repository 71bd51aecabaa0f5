"""`python -m dpsim` runs the command `dpsim`."""

from dpsim.cli import main

if __name__ == "__main__":
    main()
