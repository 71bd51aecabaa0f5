"""The version of the installed distribution."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of


def version() -> str:
    """Returns the version, such as "0.1.0", or "unknown" if the source runs without an installation."""
    try:
        return version_of("dpsim-ranks")
    except PackageNotFoundError:
        return "unknown"
