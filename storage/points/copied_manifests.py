"""The manifest of a point in a copy: that of the first repository, byte for byte, unless the copy's server refused some
of its files, or their names. A refused file is an exception as in a backup: the entry of the copy's point before it is
carried on, as of that point.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from storage.points import manifests
from storage.points.entries import Entry, excepted
from storage.points.exception_texts import SHOWN_IN_WARNINGS, warnings_of
from storage.points.store import StorageFailed

NOT_COPIED = "it could not be copied between two repositories: "
LENGTH = 500
"""The most characters of a reason."""
HALF = "more than half of the files of point {} could not be copied: {}"


@dataclass
class CopiedManifest:
    """A manifest that differs from the one in the first repository. `left_out`: place → why its file was not copied;
    `renamed`: place → its file's place in the copy. `exceptions`: the number of entries without their file; `said`: the
    first ones, with the reason.
    """

    point: str
    left_out: Mapping[str, str]
    renamed: Mapping[str, str]
    files: int = 0
    exceptions: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        return warnings_of(self.exceptions, self.said)

    def write(self, file: Path, manifest: Path, before: Path | None, base: str) -> None:
        """Write the manifest. `before`: that of the point before it in the copy, `base` its name. Raises:
        StorageFailed if more than half of its files did not come; ManifestDamaged, OSError.
        """
        header = manifests.read_header(manifest)
        header = replace(header, complete=header.complete and not self.left_out)
        manifests.write(file, header, self._entries(manifest, before, base))
        if self.exceptions > self.files / 2:
            raise StorageFailed(HALF.format(self.point, "; ".join(self.said[:6])))

    def _entries(self, manifest: Path, before: Path | None, base: str) -> Iterator[Entry]:
        pairs = manifests.side_by_side(manifests.read(manifest), manifests.read(before) if before else ())
        for entry, old in pairs:
            if entry is None:
                continue
            self.files += bool(entry.folder)
            if not entry.folder:
                yield entry
            elif entry.place in self.renamed:
                folder, _, name = self.renamed[entry.place].partition("/")
                yield entry._replace(folder=folder, stored=name)
            elif why := self.left_out.get(entry.place):
                self.exceptions += 1
                entry = excepted(entry, old, NOT_COPIED + why[:LENGTH], base)
                if len(self.said) < SHOWN_IN_WARNINGS:
                    self.said.append(_said(entry))
                yield entry
            else:
                yield entry


def warnings_in(manifest: Path) -> list[str]:
    """The warnings about files of a point of a copy that a server refused, by its manifest. Raises: ManifestDamaged,
    OSError.
    """
    if manifests.read_header(manifest).complete:
        return []
    number, said = 0, list[str]()
    for each in manifests.read(manifest):
        if each.why.startswith(NOT_COPIED):
            number += 1
            said += [_said(each)] if number <= SHOWN_IN_WARNINGS else []
    return warnings_of(number, said)


def _said(entry: Entry) -> str:
    return f"{entry.path}: {entry.why}"
