"""Folders and files of this account whose modes close them to it, as a backup may have had them: they are opened to it
for as long as they are used. No file can be made in a folder of mode 0555, and one of mode 0444 or 0 cannot even be
entered. If it belongs to this account, it gets `u+rwx` when it is passed through, and its former mode when the whole
tree is closed; if this process is killed before that, it stays open to its owner, and to no other account. A file gets
`u+r` only until it is open. What belongs to another account is left as it is. Root needs none of this.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from storage.folders.beneath import BY_DESCRIPTOR, PASS, READ, Beneath
from storage.folders.walking import Identity

ANY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnFolders(Beneath):
    """An open folder and everything below it. `lends`: False if closed folders and files are to stay closed."""

    lends = True

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, path)
        self._lent: dict[bytes, tuple[Identity, int]] = {}

    def open(self, name: bytes, above: int, flags: int = READ) -> int:
        try:
            return super().open(name, above, flags)
        except PermissionError:
            if not self.lends:
                raise
        closed = os.open(name, ANY, dir_fd=above)
        try:
            mode = _opened(closed, stat.S_IRUSR)
            try:
                return super().open(name, above, flags)
            finally:
                if mode is not None:
                    _set_mode(closed, mode)
        finally:
            os.close(closed)

    def keep_mode(self, path: bytes) -> None:
        """Let a folder below have the mode that it has now."""
        self._lent.pop(path, None)

    def close(self) -> None:
        while self._lent:
            path, (identity, mode) = self._lent.popitem()
            with suppress(OSError):
                name, above = self.at(path)
                descriptor = os.open(name, PASS, dir_fd=above)
                try:
                    if _identity_of(descriptor) == identity:
                        _set_mode(descriptor, mode)
                finally:
                    os.close(descriptor)
        super().close()

    def _on_entering(self, path: bytes, descriptor: int) -> None:
        if self.lends and (mode := _opened(descriptor, stat.S_IRWXU)) is not None:
            self._lent[path] = _identity_of(descriptor), mode


def _opened(descriptor: int, rights: int) -> int | None:
    """Give rights to the owner of a file or folder, if it is this account and lacks them. Returns the former mode. None
    if it was not changed.
    """
    facts = os.fstat(descriptor)
    is_other = not (stat.S_ISDIR(facts.st_mode) or stat.S_ISREG(facts.st_mode))
    if is_other or facts.st_uid != os.geteuid() or facts.st_mode & rights == rights:
        return None
    if os.geteuid() == 0 and os.access(f"{BY_DESCRIPTOR}/{descriptor}", rights >> 6):  # a container may deny it to root
        return None
    mode = stat.S_IMODE(facts.st_mode)
    with suppress(OSError):
        _set_mode(descriptor, mode | rights)
        return mode
    return None


def _set_mode(descriptor: int, mode: int) -> None:
    os.chmod(BY_DESCRIPTOR / str(descriptor) if BY_DESCRIPTOR.exists() else descriptor, mode)


def _identity_of(descriptor: int) -> Identity:
    facts = os.fstat(descriptor)
    return facts.st_dev, facts.st_ino
