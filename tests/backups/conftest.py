"""The folder that is copied."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    (files / "letter.txt").write_bytes(b"Dear bank\n" * 100)
    return files
