"""Files that a copy leaves out since one of the two repositories refuses them alone: the copy has no place for such a
name, or a server locks or denies one file. They are named, and keep no other file from the copy.

What a repository says about all files is no such refusal: that it is full, does not answer, or denies the credentials.
A copy whose credentials may write nothing at all cannot write its manifest either, and so makes no point.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from storage.places.servers import DAMAGED_OR_FOREIGN
from storage.points import manifests
from storage.points.entries import Entry
from storage.points.reading import OF_A_NAME
from storage.points.store import PIECE, StorageFailed

LEFT_OUT = "{!r} is not in the copy, and is tried again once a check of the copy has missed it: "
HALF = "more than half of the files of point {} could not be copied, such as {}"
SHOWN = 200
MOST_AGAIN = 1_000
"""The most files that are tried once more, one at a time."""
ONE_AT_A_TIME = ("--transfers=1", "--checkers=1")
OF_A_FILE = re.compile(r"not an encrypted file|bad magic|truncated|input/output error", re.IGNORECASE)
"""Messages about a file whose content in the first repository is lost."""
OF_ALL = re.compile(
    r"no space left|quota|insufficient storage|read-only file system|stale file handle|cannot allocate|"
    r"unauthorized|invalidaccesskeyid|signaturedoesnotmatch|invalid_grant|connection|broken pipe|timed? ?out|"
    r"deadline exceeded|no route to host|network is unreachable|host is (down|unreachable)|no such host|"
    r"server misbehaving|name resolution|TLS handshake|too many requests|slow ?down|service unavailable|bad gateway|"
    r"statuscode: (401|429|50[234])|\bEOF\b",
    re.IGNORECASE,
)
"""Messages that concern all files, although rclone names one. Seen with a folder, WebDAV, SFTP and buckets."""


def is_of_a_name(why: str) -> bool:
    """True if a repository refuses the name of a file: another try does not change that."""
    return OF_A_NAME.search(why) is not None


def bring(entries: Sequence[Entry], copied: Callable[..., dict[str, str]]) -> dict[str, str]:
    """Copy files by `copied`, which gets them and options of rclone, and returns problems by path. What another try may
    bring is tried once more. Returns texts about those that are left out, by place; a file that is lost in the first
    repository is not among them. Raises: StorageFailed for a problem of all files.
    """
    problems = _by_place(copied(entries), entries)
    again = [each for each in entries if each.place in problems and _may_pass(problems[each.place])]
    if 0 < len(again) <= MOST_AGAIN:
        for each in again:
            del problems[each.place]
        problems |= _by_place(copied(again, *ONE_AT_A_TIME), again)
    left_out = dict[str, str]()
    for each in entries:
        why = problems.get(each.place, "")
        if not why or _is_lost(why):
            continue
        words = why.replace(each.place, "")
        if OF_ALL.search(words) and not is_of_a_name(words):
            raise StorageFailed(f"{each.place}: {why}")
        left_out[each.place] = LEFT_OUT.format(_shown(each.path)) + why
    return left_out


def _by_place(problems: Mapping[str, str], entries: Sequence[Entry]) -> dict[str, str]:
    """The problems by place. Raises: StorageFailed for one that concerns none of these files."""
    places, found = {each.place for each in entries}, dict[str, str]()
    for path, why in problems.items():
        place = PIECE.sub("", path)
        if place not in places:
            raise StorageFailed(f"{path}: {why}")
        found[place] = why
    return found


def _shown(path: str) -> str:
    """The path, without its middle if it is long."""
    return path if len(path) <= SHOWN else f"{path[: SHOWN // 2]} … {path[-SHOWN // 2 :]}"


def _may_pass(why: str) -> bool:
    return not (_is_lost(why) or is_of_a_name(why))


def _is_lost(why: str) -> bool:
    """True if the content of a file in the first repository is lost."""
    return DAMAGED_OR_FOREIGN in why or OF_A_FILE.search(why) is not None


def check_half(point: str, manifest: Path, left_out: Mapping[str, str]) -> None:
    """Raises: StorageFailed if more than half of the files of a point were left out for other reasons than names."""
    others = [each for each in left_out.values() if not is_of_a_name(each.rpartition(LEFT_OUT[-20:])[2])]
    if others and len(others) > sum(bool(each.folder) for each in manifests.read(manifest)) / 2:
        raise StorageFailed(HALF.format(point, others[0]))
