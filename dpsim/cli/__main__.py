"""`python -m dpsim.cli` is `dpsim`."""

from dpsim.cli.app import main

main()
