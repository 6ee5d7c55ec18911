"""The packages and modules of the product, as pyproject.toml lists them, for tests that search all of them."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROVING = "proving"

_listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["root_packages"]
PACKAGES = tuple(name for name in _listed if name != PROVING)


def modules(containing: str = "", packages: tuple[str, ...] = PACKAGES) -> Iterator[tuple[str, ast.Module]]:
    """Path below the root and syntax tree of each module that has this text: parsing all of them takes a second."""
    for path in paths(packages):
        if containing in (source := (ROOT / path).read_text(encoding="utf-8")):
            yield path, ast.parse(source)


def paths(packages: tuple[str, ...] = PACKAGES) -> Iterator[str]:
    """Path below the root of each module."""
    for package in packages:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield str(file.relative_to(ROOT))
