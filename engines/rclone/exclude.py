"""The patterns of what a policy leaves out: one meaning for every engine and every kind of source.

A pattern names files and folders, and of a folder everything that it holds. If it begins with a slash, it begins at the
top of the source, else at any folder. `*` and `?` match within one name, `**` any number of names, `[…]` one of some
characters, `{a,b}` one of some texts. A slash or `/**` at its end is only another way to mark a folder.
"""

import re
from collections.abc import Callable, Iterable

ENDS = re.compile(r"(/\*\*|/)$")


def rclone_arguments(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns as arguments of rclone, which takes a pattern without `/**` for that of a file."""
    stems = [_stem(each) for each in patterns]
    return tuple(f"--exclude={each}{end}" for each in stems for end in ("", "/**"))


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """A function that returns True for a path, from the top of the source, that is left out. Raises: ValueError for an
    invalid pattern.
    """
    parts = [_expression(_stem(each)) for each in patterns]
    if not parts:
        return lambda path: False
    found = re.compile("|".join(parts), re.DOTALL)
    return lambda path: found.search(path) is not None


def _stem(pattern: str) -> str:
    return ENDS.sub("", pattern) or pattern


def _expression(pattern: str) -> str:
    start = "^" if pattern.startswith("/") else "(?:^|/)"
    try:
        found = f"{start}{_body(pattern.removeprefix('/'))}(?:/|$)"
        re.compile(found)
    except (re.error, IndexError):
        raise ValueError(f"{pattern!r} is not a file pattern: see whether each bracket is closed") from None
    return found


def _body(pattern: str) -> str:
    """The regular expression of a pattern (https://rclone.org/filtering/#pattern-syntax)."""
    made, at, depth = "", 0, 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            many = pattern.startswith("*", at)
            at += many
            made += ".*" if many else "[^/]*"
        elif character == "?":
            made += "[^/]"
        elif character == "[":
            end = pattern.index("]", at + 1) if "]" in pattern[at + 1 :] else -1
            if end < 0:
                raise IndexError
            inner = pattern[at:end].replace("\\", "\\\\").replace("[", "\\[")
            made += f"[{inner}]"
            at = end + 1
        elif pattern.startswith("{{", at - 1):
            end = pattern.index("}}", at) if "}}" in pattern[at:] else -1
            if end < 0:
                raise IndexError
            made += f"(?:{pattern[at + 1 : end]})"
            at = end + 2
        elif character == "{":
            depth += 1
            made += "(?:"
        elif character == "}" and depth:
            depth -= 1
            made += ")"
        elif character == "," and depth:
            made += "|"
        elif character == "\\":
            made += re.escape(pattern[at])
            at += 1
        else:
            made += re.escape(character)
    if depth:
        raise IndexError
    return made
