"""What a policy leaves out: one meaning for every engine and every kind of source.

A pattern names files and folders, and of a folder all that it holds. It begins at the top of the source where it begins
with a slash, else at any folder. `*` and `?` stand for what is within one name, `**` for any number of names, `[…]` for
one of some characters, `{a,b}` for one of some texts. A slash or `/**` at its end is only another way to say that a
folder is meant.
"""

import re
from collections.abc import Callable, Iterable

ENDS = re.compile(r"(/\*\*|/)$")


def rclone_arguments(patterns: Iterable[str]) -> tuple[str, ...]:
    """The same for rclone, for which a pattern without `/**` is that of a file."""
    stems = [_stem(each) for each in patterns]
    return tuple(f"--exclude={each}{end}" for each in stems for end in ("", "/**"))


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether a path, from the top of the source, is left out. Raises: ValueError for a pattern that is none."""
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
        raise ValueError(f"{pattern!r} is no pattern of files: see whether each bracket is closed") from None
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
