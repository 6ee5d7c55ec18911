"""Extended attributes of the files in a tree, and an ACL."""

import os
import struct
from pathlib import Path

import pytest

BOB = 4712
READ_BY_BOB = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, who)
    for tag, rights, who in ((1, 6, 2**32 - 1), (2, 4, BOB), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1))
)
"""An ACL: user::rw-, user:BOB:r--, group::r--, mask::r--, other::---."""


def set_attribute(file: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        pytest.skip(f"{name} cannot be set here: {error}")


def attributes(folder: Path) -> dict[str, dict[str, bytes]]:
    return {
        str(path.relative_to(folder)): {name: os.getxattr(path, name) for name in os.listxattr(path)}
        for path in folder.rglob("*")
        if not path.is_symlink()
    }
