"""Trees of thousands of folders in folders, which no call reaches that gets a path."""

import os
from pathlib import Path


def make_levels(folder: Path, levels: int, name: str = "d", every: int = 100) -> Path:
    """Folders in folders, with a file in every hundredth one and in the last one, or none if `every` is 0."""
    folder.mkdir(parents=True, exist_ok=True)
    above = os.open(folder, os.O_RDONLY)
    for number in range(levels):
        os.mkdir(name, dir_fd=above)
        below = os.open(name, os.O_RDONLY, dir_fd=above)
        if every and (number % every == 0 or number == levels - 1):
            os.close(os.open("file", os.O_CREAT, dir_fd=below))
        os.close(above)
        above = below
    os.close(above)
    return folder
