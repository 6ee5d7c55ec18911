"""Scratch space: a folder that an account without rights may pass through, since servers of drills run as one."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ACCOUNT = (65_534, 65_534) if os.geteuid() == 0 else None


@pytest.fixture
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)
