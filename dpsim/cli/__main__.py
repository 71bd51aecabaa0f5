"""`python -m dpsim.cli` is `dpsim`."""

from dpsim.cli.app import main

if __name__ == "__main__":
    main()
