"""Names that a repository refuses, and the ones that it keeps instead."""

import hashlib
import re

from storage import layout
from storage.points.entries import Entry

OF_A_NAME = re.compile(
    r"invalid argument|(name|path|\bkey|\buri)\W?(is\W)?too\W?(long|large)|multibyte"
    r"|name length|maximum object length|request inputs is out of range"
    r"|(invalid|illegal|bad|unsupported)\W.{0,30}(name|path|character)"
    r"|(name|path|character).{0,30}\W(invalid|illegal|not (valid|allowed|supported))",
    re.IGNORECASE,
)
"""Messages about a file whose name a repository refuses."""


def name_for(path: str) -> str:
    """The name that such a file gets, in the folder of renamed files: no two paths have the same one. It consists of
    digits, which every repository keeps as they are.
    """
    return str(int.from_bytes(hashlib.sha256(path.encode("utf-8", "surrogatepass")).digest()))


def with_another_name(entry: Entry) -> Entry | None:
    """The entry of a stored file with the name that a copy gives it where its server refuses the first one. None if the
    file has such a name already.
    """
    name = entry.stored or entry.path
    folder = layout.folder_of(layout.run_of(entry.folder), layout.RENAMED)
    return entry._replace(folder=folder, stored=name_for(name)) if folder != entry.folder else None
