"""The arguments of restic for a policy's options, which are written as for rclone. Pure."""

import re
from collections.abc import Iterator
from itertools import chain, product
from typing import Any

from engines.rclone import exclude

PIECE = r"\\.|\[[^\]]*\]"
"""A character after a backslash, or a set of characters: inside these nothing is a wildcard."""
ALTERNATIVES = re.compile(rf"((?:{PIECE}|[^\\\[{{])*)\{{((?:{PIECE}|[^\\\[}}])*)\}}")
ALTERNATIVE = re.compile(rf"(?:^|,)((?:{PIECE}|[^\\\[,])*)")
ESCAPED = re.compile(PIECE)
RANGE_OR_ONE = re.compile("(.)-(.)|.", re.DOTALL)
SPECIAL = re.compile(r"([\\*?\[\]])")
RATE = re.compile(r"(\d+(?:\.\d+)?)([BKMG])", re.IGNORECASE)
UNITS = {"B": 1 / 1024, "K": 1, "M": 1024, "G": 1024**2}
MOST_PATTERNS = 200


def exclude_arguments(patterns: list[str], folder: str) -> tuple[str, ...]:
    """The arguments of restic for patterns of rclone. restic compares whole paths, so each pattern begins with that of
    `folder`, without links: the name of a folder above it would otherwise leave out everything.

    Raises: ValueError for a pattern that is not valid, or that restic cannot express.
    """
    exclude.matcher(patterns)
    found = [each for pattern in patterns for each in _alternatives(pattern)]
    above = SPECIAL.sub(r"\\\1", folder.rstrip("/"))
    # `dir/**` is everything in a folder, for which restic takes the folder
    plain = (each.removesuffix("/**").rstrip("/") for each in found)
    return tuple(f"--exclude={above}/{_with_hyphens(below)}" for each in plain for below in _below(each))


def _with_hyphens(pattern: str) -> str:
    """The pattern with a backslash before each hyphen that stands for itself in a choice of characters: restic refuses
    it otherwise, and with it the backup.
    """

    def escaped(found: re.Match[str]) -> str:
        first, last = (each.replace("-", r"\-") for each in (found[1] or found[0], found[2] or ""))
        return f"{first}-{last}" if last else first

    def with_hyphens(piece: re.Match[str]) -> str:
        if piece[0].startswith("\\"):
            return piece[0]
        begin = "[^" if piece[0].startswith("[^") else "["
        return f"{begin}{RANGE_OR_ONE.sub(escaped, piece[0][len(begin) : -1])}]"

    return ESCAPED.sub(with_hyphens, pattern)


def _below(pattern: str) -> Iterator[str]:
    """The patterns below a folder for one pattern. Between slashes `**` stands for at least one name in rclone, and for
    none as well in restic; but where a pattern has two of them, restic takes the second for at least one. So there is a
    pattern for one name and another for several.
    """
    anywhere = () if pattern.startswith("/") else ("**",)
    *names, last = pattern.removeprefix("/").split("/")
    if any("**" in ESCAPED.sub("", each) for each in (*names, last) if each != "**"):
        raise ValueError(f"option 'exclude' holds {pattern!r}: for restic, ** is between slashes only; use *")
    if 2 ** names.count("**") > MOST_PATTERNS:
        raise ValueError(f"option 'exclude' holds {pattern!r}, which expands to more than {MOST_PATTERNS} patterns")
    ways = [(("*",), ("*", "**")) if each == "**" else ((each,),) for each in names]
    for parts in product(*ways):
        yield "/".join((*anywhere, *chain.from_iterable(parts), "*" if last == "**" else last))


def rate_arguments(limit: str | None, *ways: str) -> tuple[str, ...]:
    """The arguments of restic for a rate, such as 10M, in bytes a second, for each of the `ways`, "upload" and
    "download".

    Raises: ValueError for a timetable.
    """
    if not limit:
        return ()
    if not (found := RATE.fullmatch(limit)):
        raise ValueError(
            f"option 'bwlimit' is a timetable ({limit}), and restic has one rate for a whole run: give one, such as 10M"
        )
    rate = max(1, round(float(found[1]) * UNITS[found[2].upper()]))
    return tuple(f"--limit-{way}={rate}" for way in ways)


def options_of(options: dict[str, Any], folder: str) -> tuple[str, ...]:
    """The arguments for all options. Options that speed up rclone are passed over."""
    return *exclude_arguments(options.get("exclude", []), folder), *rate_arguments(options.get("bwlimit"), "upload")


def _alternatives(pattern: str) -> Iterator[str]:
    """The patterns that a pattern stands for: `*.{a,b}` is `*.a` and `*.b`."""
    if "{{" in pattern:
        raise ValueError(f"option 'exclude' holds {pattern!r}: restic knows no regular expressions; use * and ?")
    waiting, number = [pattern], 0
    while waiting:
        each = waiting.pop()
        if found := ALTERNATIVES.match(each):
            begin, inner = found.groups()
            waiting += [begin + one + each[found.end() :] for one in ALTERNATIVE.findall(inner)]
        else:
            yield each
        if (number := number + 1) > MOST_PATTERNS:
            raise ValueError(f"option 'exclude' holds {pattern!r}, which expands to more than {MOST_PATTERNS} patterns")
