"""`python -m dpsim.cli` is `dpsim`."""

from dpsim.cli.ending import main

if __name__ == "__main__":
    main()
