"""The version of this program, as `--version` reports it."""

import tomllib
from importlib import metadata

from backupsched.places import CHECKOUT


def own_version() -> str:
    """The version of the installed package, or of the checkout that this program runs from."""
    if CHECKOUT:
        return str(tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    return metadata.version("backupsched")
