"""The coordination protocol, written once against `dpsim.interface`."""
