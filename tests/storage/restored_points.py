"""Points that are restored into a folder."""

from pathlib import Path
from typing import Any

import pytest

from storage.restoring import into_folder
from storage.restoring.base import Report, Wish
from tests.storage.building import ASSIGNMENT, Built


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return Built(tmp_path / "built")


def restore(built: Built, point: str, target: Path, *paths: str, **wish: Any) -> Report:
    return into_folder.restore(Wish(ASSIGNMENT, point, target, paths, **wish), built.store, built.folder / "cache")
