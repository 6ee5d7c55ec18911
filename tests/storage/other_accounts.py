"""Accounts beside root, and a folder that they may pass through."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

OWNER, WORKER = 65_534, 1
"""The account of the target; and a worker that is not root."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that every account may pass through, unlike `tmp_path`."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    yield home
    shutil.rmtree(home)
