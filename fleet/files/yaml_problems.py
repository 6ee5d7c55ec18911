"""Problems of a YAML file as text: the parser's whole problem, and the text to write instead. Pure."""

import re

from ruamel.yaml.error import MarkedYAMLError

VALUE = re.compile(r"^(?P<indent>\s*(?:- +)*)(?P<key>[\w.-]+|\"[^\"]*\"|'[^']*'):\s+(?P<value>\S.*?)\s*$")
SIGNS = "*@%?&!`|>,[]{}"
"""Characters that have a meaning in YAML at the beginning of a value."""
AN_ALIAS = "aliases are not supported; write out the values"
BACKSLASH = "in double quotes a backslash begins a code; in single quotes it is one"


def explained(error: MarkedYAMLError, text: str) -> str:
    """The problem as text, such as `line 3, column 9: found character '@' … ; put it in quotes: `cron: "@daily"``."""
    mark = error.problem_mark or error.context_mark
    told = error.problem or error.context or "it cannot be read"
    if error.context and error.problem and error.context != error.problem:
        begun = f" from line {error.context_mark.line + 1}" if error.context_mark else ""
        told = f"{error.problem} ({error.context}{begun})"
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    cure = cure_of(text.splitlines()[mark.line]) if mark and mark.line < text.count("\n") + 1 and text else ""
    return f"{where}{told}{cure}"


def cure_of(line: str) -> str:
    """The text to write in place of a line whose value begins with or contains a sign of YAML; empty if that is not
    known.
    """
    if not (found := VALUE.match(line)):
        return ""
    key, value = found["key"], found["value"]
    if value.startswith('"') and "\\" in value:
        return f"; {BACKSLASH}: `{key}: '{value.strip(chr(34))}'`"
    if value[0] in SIGNS or re.search(r": |:$| #", value):
        return f"; put it in quotes: `{key}: {quoted(value)}`"
    return ""


def quoted(value: str) -> str:
    """The value in double quotes, or in single ones if it contains double quotes or a backslash."""
    return f"'{value.replace(chr(39), chr(39) * 2)}'" if '"' in value or "\\" in value else f'"{value}"'


def lost_to_a_comment(text: str) -> str:
    """The place where a value that begins with # is taken for a comment, so that its field is empty; empty if there is
    none. A comment has a space after the #, or is above the lines of its field.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = VALUE.match(line)
        if found is None or not re.match(r"#[^\s#]", found["value"]):
            continue
        below = next((each for each in lines[number + 1 :] if each.strip() and not each.lstrip().startswith("#")), "")
        indent = len(found["indent"])
        if len(below) - len(below.lstrip()) <= indent and not below.startswith(f"{' ' * indent}- "):
            key, value = found["key"], found["value"]
            column = line.index("#") + 1
            return (
                f"line {number + 1}, column {column}: what follows # is a comment, so {key} is empty; put it in "
                f"quotes: `{key}: {quoted(value)}`"
            )
    return ""
