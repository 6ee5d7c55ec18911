"""Files that a copy leaves out because one of the two repositories refuses just these: a server locks or denies a file,
or cannot store its name. They are exceptions of the copy's point, and keep no other file out of it.

A server's message that concerns all files is not such a refusal: that it is full, does not answer, or denies the
credentials. Nor are credentials without the right to write: then the manifest cannot be written either, and there is no
point.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from external.formatting import on_one_line
from storage.places.servers import DAMAGED_OR_FOREIGN
from storage.points.entries import Entry
from storage.points.other_names import OF_A_NAME
from storage.points.store import PARTIAL_SUFFIX, PIECE, StorageFailed

MOST_AGAIN = 1_000
"""The most files that are tried again, one at a time."""
ONE_AT_A_TIME = ("--transfers=1", "--checkers=1", "--low-level-retries=1")
"""The options of a second try, for servers that allow few open files at a time; everything else was
tried again before.
"""
PATIENTLY = ("--transfers=1", "--checkers=1")
"""The same with rclone's usual tries, for a server that answers, but wants fewer requests in a second."""
OF_CONTENT = re.compile(r"corrupt|\bdiffer\b|mismatch|not what was sent", re.IGNORECASE)
"""Messages about a file that arrived with another content, such as `multipart upload corrupted: Etag differ`."""
ALTERED = "its content there is not what was sent, and could not be replaced: "
CUT_OFF = re.compile(r"max transfer limit|context canceled", re.IGNORECASE)
"""Messages about a file that was being copied when rclone reached its limit."""
OF_A_FILE = re.compile(r"not an encrypted file|bad magic|truncated", re.IGNORECASE)
"""Messages about a file whose content in the first repository is lost."""
OF_A_DISK = re.compile(r"input/output error", re.IGNORECASE)
"""The same, if the disk is that of the first repository."""
FINAL = re.compile(
    r"permission denied|access ?denied|forbidden|not found|no such file|source file is being updated|"
    r"nothing moved for",
    re.IGNORECASE,
)
"""Messages of failures that another try does not change."""
OF_ALL = re.compile(
    r"no space left|quota|insufficient storage|read-only file system|stale file handle|cannot allocate|"
    r"unauthorized|invalidaccesskeyid|signaturedoesnotmatch|invalid_grant|statuscode: 401|\b(401|507) [A-Z]",
    re.IGNORECASE,
)
"""Messages that concern all files, although rclone names one. Seen with a folder, WebDAV, SFTP and buckets."""
OF_A_SILENCE = re.compile(
    r"connection|broken pipe|timed? ?out|deadline exceeded|no route to host|network is unreachable|"
    r"host is (down|unreachable)|no such host|server misbehaving|name resolution|TLS handshake|too many requests|"
    r"slow ?down|service unavailable|bad gateway|statuscode: (429|50[234])|\b(429|50[234]) [A-Z]|\bEOF\b",
    re.IGNORECASE,
)
"""The same, unless it was one file alone, and the server answers afterwards."""
IN_QUOTES = re.compile(r'"[^"]*/[^"]*"')
"""A path or an address in a message: a folder may be named `quota`."""
QUOTED = dict(zip('"\\\a\b\f\n\r\t\v', (f"\\{each}" for each in '"\\abfnrtv'), strict=True))
"""Characters as Go quotes them."""


def without_path(why: str, path: str) -> str:
    """A message without a path, and without the names in it, of which servers may give one alone: a file may be called
    `quota` or `no space left.txt`. Words of the message stay: a file may be called `no` as well.
    """
    for spelled in spellings_of(path):
        why = why.replace(spelled, "…") if "/" in spelled else why
        for name in set(spelled.split("/")):
            if name and name in why:  # of most files it is not: a pattern of each one would take seconds
                why = re.sub(rf"(?:^|(?<=[/\" ])){re.escape(name)}(?=[/\":])", "…", why)
    return why


def spellings_of(path: str) -> tuple[str, ...]:
    """The forms of a path in messages: as it is, with the marks of writing direction and control characters made
    visible, and as Go quotes it.
    """
    if path.isprintable() and '"' not in path and "\\" not in path:
        return (path,)
    return path, on_one_line(path), "".join(map(_quoted, path))


def _quoted(sign: str) -> str:
    if sign in QUOTED:
        return QUOTED[sign]
    if sign.isprintable():
        return sign
    return f"\\u{ord(sign):04x}" if ord(sign) > 0x7F else f"\\x{ord(sign):02x}"


def is_lost(why: str, copy: str = "") -> bool:
    """True if the content of a file in the first repository is lost. `copy`: the folder of the copy; empty if it is not
    on this host. Its own disk is named with a path in it.
    """
    if OF_A_DISK.search(why) and not (PARTIAL_SUFFIX in why or (copy and f"{copy}/" in why)):
        return True
    return DAMAGED_OR_FOREIGN in why or OF_A_FILE.search(why) is not None


def is_of_a_name(why: str) -> bool:
    """True if a repository refuses the name of a file."""
    return OF_A_NAME.search(why) is not None


def is_altered(why: str) -> bool:
    """True if a file may be there with its size and another content."""
    return OF_CONTENT.search(why) is not None


@dataclass
class Refusals:
    """The refusals of one copy. `copied` copies files: it gets them and options of rclone, and returns the reasons why
    some did not come, by path. `arrived`: the places of those that are there nevertheless: only the answer was lost,
    and a server may refuse to have them written twice. `answers` raises StorageFailed if the server does not answer.

    `copy`: as in `is_lost`. `altered`: places where a file of the right size may have another content, here or by the
    point before; `on_altered` gets those that are new, before anything else is copied.
    """

    copied: Callable[..., Mapping[str, str]]
    arrived: Callable[[Sequence[Entry]], Collection[str]]
    answers: Callable[[], object]
    roots: Sequence[str] = ()
    copy: str = ""
    altered: set[str] = field(default_factory=set)
    on_altered: Callable[[Collection[str]], object] = lambda places: None

    def bring(self, entries: Sequence[Entry]) -> dict[str, str]:
        """Copy files. Those that another try may bring are tried once more, one at a time. Returns the reasons by
        place, without files that are lost in the first repository. Raises: StorageFailed for an error that concerns all
        files.
        """
        problems = self._tried(entries)
        again = [each for each in entries if each.place in problems and _may_pass(problems[each.place])]
        if 0 < len(again) <= MOST_AGAIN:
            second = self._tried(again, *self._second_try([problems[each.place] for each in again]))
            problems = {place: why for place, why in problems.items() if not _may_pass(why)} | second
        return self.judged(problems)

    def _second_try(self, reasons: Sequence[str]) -> tuple[str, ...]:
        if sum(OF_A_SILENCE.search(each) is not None for each in reasons) < 2:
            return ONE_AT_A_TIME  # a large file may be sent each time
        self.answers()
        return PATIENTLY

    def judged(self, problems: Mapping[str, str]) -> dict[str, str]:
        """The problems, by place, that are exceptions: without files that are lost in the first repository. Raises:
        StorageFailed for an error that concerns all files.
        """
        problems = {place: why for place, why in problems.items() if not is_lost(why, self.copy)}
        told = self._noted(problems)
        words = {place: self._words(place, why) for place, why in problems.items()}
        words = {place: text for place, text in words.items() if not is_of_a_name(text)}
        silent = [place for place, text in words.items() if OF_A_SILENCE.search(text)]
        for place in [place for place, text in words.items() if OF_ALL.search(text)] or silent[1:]:
            raise StorageFailed(f"{place}: {problems[place]}")
        if silent:
            self.answers()
        return told

    def _noted(self, problems: Mapping[str, str]) -> dict[str, str]:
        """The reasons, which `is_altered` recognises if other content may be there: the next copy has to know."""
        self.distrust(place for place, why in problems.items() if is_altered(why))
        return {
            place: f"{ALTERED}{why}" if place in self.altered and not is_altered(why) else why
            for place, why in problems.items()
        }

    def distrust(self, places: Iterable[str]) -> None:
        """Stop trusting the sizes of files at these places."""
        if new := set(places) - self.altered:
            self.altered |= new
            self.on_altered(new)

    def _words(self, place: str, why: str) -> str:
        for path in self.roots:
            why = why.replace(path, "…") if len(path) > 1 else why
        why = without_path(why, place)
        return IN_QUOTES.sub("…", why)

    def _tried(self, entries: Sequence[Entry], *how: str) -> dict[str, str]:
        named = self.copied(entries, *how)
        self.distrust(_altered_among(named, entries))  # before an error that concerns all ends the copy
        problems = self._noted(_by_place(named, entries, self.copy))
        in_doubt = [each for each in entries if each.place in problems and each.place not in self.altered]
        there = self.arrived(in_doubt) if in_doubt else ()
        return {place: why for place, why in problems.items() if place not in there}


def _may_pass(why: str) -> bool:
    return not (is_of_a_name(why) or FINAL.search(why))


def _altered_among(problems: Mapping[str, str], entries: Sequence[Entry]) -> set[str]:
    places = {each.place for each in entries} if problems else set[str]()
    named = [(PIECE.sub("", path), why) for path, why in problems.items()]
    return {path for path, why in named if path in places and is_altered(without_path(why, path))}


def _by_place(problems: Mapping[str, str], entries: Sequence[Entry], copy: str) -> dict[str, str]:
    """The reasons by place, in words that do not contain it, of files that are not lost. Raises: StorageFailed for an
    error that concerns none of them.
    """
    found, at = dict[str, str](), {PIECE.sub("", path): why for path, why in problems.items()}
    named = set[str]()
    for each in entries if at else ():
        # a problem of a folder is that of all its files, unless they have their own
        if over := [path for path in _and_above(each.place) if path in at]:
            named.update(over)
            if not is_lost(why := without_path(at[over[0]].replace(over[0], "…"), each.place), copy):
                found[each.place] = why
    if others := at.keys() - named:
        raise StorageFailed(f"{min(others)}: {at[min(others)]}")
    return found


def _and_above(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]
