"""The patterns of files that a policy leaves out: one meaning for every engine and every kind of source.

A pattern names files and folders, and of a folder everything that it holds. If it begins with a slash, it begins at the
top of the source, else at any folder. `*` and `?` match within one name, `**` any number of names, `[…]` one of some
characters, but no slash, `{a,b}` one of some texts. A slash or `/**` at its end is only another way to mark a folder.

A part between slashes that is empty, `.` or `..` is refused: restic resolves it, and for rclone it matches nothing. So
is a pattern that leaves out everything.
"""

import re
from collections.abc import Callable, Iterable

ENDS = re.compile(r"(/\*\*|/)$")
ONE_OF = re.compile(r"\^?[^\\\[/^]+")
"""Characters and ranges without anything that means something else to Python, Go or restic."""
SIGN = re.compile(r"\\.|\[[^\]]*\]|\{\{.*?\}\}+|.", re.DOTALL)
"""A character after a backslash, a choice of characters, a regular expression, or a character."""
RANGE_WITH_SLASH = re.compile(r"([\0-.])-([0-\U0010ffff])")
NO_NAMES = {"", ".", ".."}
EVERYTHING = {"", "*", "**"}
MANY = 2
"""The stars that match any number of names."""


def rclone_arguments(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns as arguments of rclone, which takes a pattern without `/**` for that of a file. Raises: ValueError
    for parts of a path that no engine can match.
    """
    stems = [SIGN.sub(lambda sign: _within_a_name(sign[0]), _stem(each)) for each in patterns]
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
    stem = ENDS.sub("", pattern)
    below = stem.removeprefix("/")
    if below in EVERYTHING:
        raise ValueError(
            f"{pattern!r} is not a file pattern: it stands for everything; name what is left out, such as *.tmp"
        )
    if not _has_names(below):
        raise ValueError(
            f"{pattern!r} is not a file pattern: a part between slashes is empty, . or ..; write the path from the top "
            "of the source, such as /cache/old"
        )
    return stem


def _has_names(pattern: str) -> bool:
    """True if each part between slashes may be a name, whichever texts are taken of those in braces."""
    begun, choices = {""}, list[tuple[set[str], set[str]]]()
    for sign in SIGN.findall(pattern):
        if sign == "/":
            if begun & NO_NAMES:
                return False
            begun = {""}
        elif sign == "{":
            choices.append((begun, set()))
        elif sign == "," and choices:
            choices[-1][1].update(begun)
            begun = choices[-1][0]
        elif sign == "}" and choices:
            begun = begun | choices.pop()[1]
        else:
            begun = {each + sign if each + sign in NO_NAMES else "name" for each in begun}
    return bool(choices) or not begun & NO_NAMES  # a brace that is not closed is named by `_expression`


def _within_a_name(sign: str) -> str:
    """The sign, if it is a choice of characters, without the slash, which rclone and Python would let it match."""
    if not sign.startswith("["):
        return sign
    choice = RANGE_WITH_SLASH.sub(r"\1-.0-\2", sign)
    return choice.replace("[^", "[^/", 1)


def _expression(pattern: str) -> str:
    start = "^" if pattern.startswith("/") else "(?:^|/)"
    try:
        found = f"{start}{_body(pattern.removeprefix('/'))}(?:/|$)"
        re.compile(found)
    except (re.error, IndexError):
        raise ValueError(f"{pattern!r} is not a file pattern: see whether each bracket is opened and closed") from None
    return found


def _body(pattern: str) -> str:
    """The regular expression of a pattern (https://rclone.org/filtering/#pattern-syntax). Raises: IndexError for a
    bracket that is not closed or opened; ValueError for a pattern that rclone refuses, or understands differently.
    """
    made, at, is_choice = "", 0, False
    while at < len(pattern):
        character, at = pattern[at], at + 1
        match character:
            case "*":
                stars = len(pattern) - at + 1 - len(pattern[at:].lstrip("*"))
                if stars > MANY:
                    raise ValueError(f"{pattern!r} is not a file pattern: it has {stars} stars, and may have two")
                at += stars - 1
                made += ".*" if stars == MANY else "[^/]*"
            case "?":
                made += "[^/]"
            case "[":
                inner, at = _until("]", pattern, at)
                if not ONE_OF.fullmatch(inner):
                    raise ValueError(f"{pattern!r} is not a file pattern: list characters and ranges, such as [a-z_]")
                made += _within_a_name(f"[{inner}]")
            case "{" | "}" if is_choice != (character == "}"):
                raise IndexError
            case "{" if pattern.startswith("{", at):
                inner, at = _until("}}", pattern, at + 1)
                while pattern.startswith("}", at):
                    inner, at = inner + "}", at + 1
                made += f"(?:{inner})"
            case "{" | "}":
                is_choice = not is_choice
                made += "(?:" if is_choice else ")"
            case "]":
                raise IndexError
            case "\\":
                if pattern[at] == "/" or pattern[at].isalnum() or not pattern[at].isascii():
                    raise ValueError(
                        f"{pattern!r} is not a file pattern: a backslash is before a letter, a digit or a slash"
                    )
                made, at = made + re.escape(pattern[at]), at + 1
            case "," if is_choice:
                made += "|"
            case _:
                made += re.escape(character)
    if is_choice:
        raise IndexError
    return made


def _until(end: str, pattern: str, at: int) -> tuple[str, int]:
    """The text up to `end`, and the position after that. Raises: IndexError if it does not come."""
    inner, found, _ = pattern[at:].partition(end)
    if not found:
        raise IndexError
    return inner, at + len(inner) + len(end)
