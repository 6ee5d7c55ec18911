"""Owner, mode, times and extended attributes of restored files, as the manifest has them, set by descriptors.

Root gives each file to the user and the group of that name, if this host has them, otherwise to those numbers. Another
account cannot, and everything that could not be set is counted. The order is the one that systems require: a new owner
takes setuid, setgid and capabilities away, and only an account that may write a file may set its attributes. ACLs and
capabilities are attributes.

Setuid, setgid and capabilities are set by root alone, on files whose owner is right and that did not change while they
were copied: otherwise a program would run with the rights of an account that never had it.
"""

import binascii
import grp
import os
import pwd
import stat
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from storage.points.counted_paths import CountedPaths
from storage.points.files import PERMISSIONS, nanoseconds
from storage.points.manifests import Entry, Header

ACL, CAPABILITY = "system.posix_acl_", "security.capability"
IDS = stat.S_ISUID | stat.S_ISGID
Owner = tuple[int, int]


class Owners:
    """The users and groups on this host that the numbers of a manifest stand for."""

    def __init__(self, header: Header) -> None:
        self._users: dict[int, int] = {}
        self._groups: dict[int, int] = {}
        self._header = header

    def of(self, entry: Entry) -> Owner | None:
        """The owner of an entry. None if the manifest does not name one."""
        if entry.uid is None or entry.gid is None:
            return None
        user = _known(entry.uid, self._users, self._header.users, lambda name: pwd.getpwnam(name).pw_uid)
        return user, _known(entry.gid, self._groups, self._header.groups, lambda name: grp.getgrnam(name).gr_gid)


def put_on(
    entry: Entry, descriptor: int, owner: Owner | None, not_set: CountedPaths, *, came_with_attributes: bool = False
) -> None:
    """Set all of them on an open file or folder. `came_with_attributes`: True if it has its extended attributes
    already, which restic sets itself.
    """
    is_owned = owner is not None and _give(entry, descriptor, owner, not_set)
    distrust = "it changed while it was copied" if is_owned and entry.doubtful else ""
    if not is_owned or os.geteuid() != 0:
        distrust = distrust or "owners were not"
    if not came_with_attributes:
        _put_attributes(entry, descriptor, not_set, distrust)
    if entry.mode is not None:
        _put_mode(entry, entry.mode, descriptor, not_set, distrust)
    if entry.modified:
        try:
            at = nanoseconds(entry.modified)
            os.utime(descriptor, ns=(at, at))
        except OSError as error:
            not_set.add(f"times were not set: {error.strerror}", entry.path)
        except (ValueError, OverflowError):
            not_set.add("times were not set, since no calendar has them", entry.path)


def is_otherwise(entry: Entry, found: os.stat_result, owners: Owners) -> bool:
    """True if a file has another owner or mode than its entry, as far as this account could set them."""
    owner = owners.of(entry) if os.geteuid() == 0 else None
    if owner is not None and (found.st_uid, found.st_gid) != owner:
        return True
    compared = PERMISSIONS | (IDS if owner is not None and not entry.doubtful else 0)
    return entry.mode is not None and (found.st_mode ^ entry.mode) & compared != 0


def attributes_of(entry: Entry) -> dict[str, bytes]:
    """The extended attributes of an entry, without damaged ones."""
    found = {}
    for name, value in (entry.attributes or {}).items():
        with suppress(binascii.Error, ValueError):
            found[name] = b64decode(value, validate=True)
    return found


def not_ours_to_give(owner: Owner | None) -> bool:
    """True if this account cannot give its files to that owner."""
    return owner is not None and os.geteuid() != 0 and owner[0] != os.geteuid()


def of_owners(strerror: str | None = None) -> str:
    why = "which only root can" if os.geteuid() != 0 else str(strerror).lower()
    return f"owners and groups were not set, {why}"


def _give(entry: Entry, descriptor: int, owner: Owner, not_set: CountedPaths) -> bool:
    found = os.fstat(descriptor)
    if (found.st_uid, found.st_gid) == owner:
        return True
    try:
        os.fchown(descriptor, *owner)
    except OSError as error:
        not_set.add(of_owners(error.strerror), entry.path)
        return False
    return True


def _put_mode(entry: Entry, mode: int, descriptor: int, not_set: CountedPaths, distrust: str) -> None:
    """`distrust`: why it gets no special bits, such as setuid; empty if it gets them."""
    wanted = mode & (PERMISSIONS | (stat.S_ISVTX if entry.kind == "folder" else 0))
    if ids := mode & (stat.S_ISGID if entry.kind == "folder" else IDS):
        if distrust:
            not_set.add(f"setuid and setgid were not set, since {distrust}", entry.path)
        else:
            wanted |= ids
    try:
        os.fchmod(descriptor, wanted)
    except OSError as error:
        not_set.add(f"modes were not set: {error.strerror}", entry.path)


def _put_attributes(entry: Entry, descriptor: int, not_set: CountedPaths, distrust: str) -> None:
    if not hasattr(os, "setxattr"):
        if entry.attributes:
            not_set.add("extended attributes were not set, which this system does not have", entry.path)
        return
    wanted = attributes_of(entry)
    if entry.uid is not None:  # inherited from the folder that it was made in
        with suppress(OSError):
            for name in os.listxattr(descriptor):
                if name.startswith(ACL) and name not in wanted:
                    os.removexattr(descriptor, name)
    for name in entry.attributes or ():
        if name not in wanted:
            not_set.add(f"extended attribute {name:.100} was not set, since it is damaged", entry.path)
        elif name == CAPABILITY and distrust:
            not_set.add(f"capabilities were not set, since {distrust}", entry.path)
        elif why := put_attribute(descriptor, name, wanted[name]):
            not_set.add(why, entry.path)


def put_attribute(what: int | str, name: str, value: bytes, **how: Any) -> str:
    """Set an extended attribute. Returns the reason why it was not set. Empty if it is set."""
    with suppress(OSError, ValueError):
        if os.getxattr(what, name, **how) == value:
            return ""
    try:
        os.setxattr(what, name, value, **how)
    except OSError as error:
        return f"extended attribute {name:.100} was not set: {error.strerror}"
    except ValueError:
        return f"extended attribute {name!r:.100} was not set, since it is damaged"
    return ""


def _known(number: int, known: dict[int, int], names: dict[str, str], look_up: Callable[[str], int]) -> int:
    """The number that a user or group has on this host."""
    if number not in known:
        known[number] = number
        with suppress(KeyError, ValueError):
            known[number] = look_up(names[str(number)])
    return known[number]
