"""A fleet as text, piece by piece, so that a large one takes no more memory than a small one.

A row is nearly flat, and ruamel.yaml and Python's `json` with an indent write some ten thousand values a second. Values
that are plain beyond doubt are written here, in their form, and all others by them: both ways give the same text.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import Node

from declarations.surfaces.printable import printable

Row = Mapping[str, Any]

PLAIN = re.compile(
    r"""/?[A-Za-z][\w./@+~=-]*(?:[ ][\w./@+~=-]+)*
    | [a-z][a-z0-9+]*://[\w./@~=-]+(?::[0-9]+[\w./@~=-]*)?  # an address, perhaps with its port
    | [0-9][\w-]*(?:\.[\w-]+)*\.[A-Za-z]{2,}  # a host whose name begins with a digit
    | [0-9]{1,3}(?:\.[0-9]{1,3}){3}""",
    re.ASCII | re.VERBOSE,
)
"""A pattern of texts that YAML takes for nothing else, except `WORDS`."""
WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
WIDTH, SHORT = 80, 70
"""Columns of a line, and of one that also has room for its indent."""
KEPT = 10_000
"""Values whose lines are kept for the next time: most of a fleet's are alike."""
IN_BLOCKS, IN_A_LINE = json.JSONEncoder(ensure_ascii=False, indent=2), json.JSONEncoder(ensure_ascii=False)
encoded = json.encoder.encode_basestring


def pieces(sections: Iterable[tuple[str, Iterable[Row]]], form: str) -> Iterator[str]:
    """The text of sections and their rows. `form`: JSON or YAML."""
    return _json(sections) if form == "JSON" else _yaml(sections)


def _json(sections: Iterable[tuple[str, Iterable[Row]]]) -> Iterator[str]:
    before = "{\n"
    for section, rows in sections:
        yield f"{before}  {encoded(section)}: ["
        first = True
        for row in rows:
            fields = ",\n".join(f"      {encoded(name)}: {_json_value(value)}" for name, value in row.items())
            yield f"{'' if first else ','}\n    {{\n{fields}\n    }}"
            first = False
        yield "]" if first else "\n  ]"
        before = ",\n"
    yield "{}\n" if before == "{\n" else "\n}\n"


def _json_value(value: Any) -> str:
    if isinstance(value, str):
        return encoded(value)
    if isinstance(value, dict | list) and value:
        return IN_BLOCKS.encode(value).replace("\n", "\n      ")
    return IN_A_LINE.encode(value)


def _yaml(sections: Iterable[tuple[str, Iterable[Row]]]) -> Iterator[str]:
    some = False
    for section, rows in sections:
        first = some = True
        for row in rows:
            if first:
                yield f"{section}:\n"
            first = False
            text = "".join(_yaml_field(name, value) for name, value in row.items())
            yield f"- {text[2:]}"
        if first:
            yield f"{section}: []\n"
    if not some:
        yield "{}\n"


def _yaml_field(name: str, value: Any) -> str:
    """The lines of a field of a row, each indented by two spaces."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return _texts(name, tuple(value))
    if isinstance(value, dict | list):
        return _nested_by_ruamel(name, json.dumps(value))
    return _scalar_line(name, value)


@lru_cache(KEPT, typed=True)
def _scalar_line(name: str, value: Any) -> str:
    if not isinstance(value, str) or not is_plain(value):
        return _by_ruamel(name, value)
    return f"  {name}: {value}\n" if len(name) + len(value) < SHORT else _folded(name, value)


@lru_cache(KEPT)
def _texts(name: str, texts: tuple[str, ...]) -> str:
    if all(map(_is_short, texts)):
        return f"  {name}:\n" + "".join(f"  - {each}\n" for each in texts)
    return _by_ruamel(name, list(texts))


def is_plain(text: str) -> bool:
    """True if YAML takes it for text without quotes."""
    return PLAIN.fullmatch(text) is not None and text.lower() not in WORDS


def _is_short(text: str) -> bool:
    return len(text) < SHORT and is_plain(text)


def _folded(name: str, text: str) -> str:
    """Plain text after the name of its field. Words that do not fit begin a new line, as in ruamel.yaml."""
    line, lines = f"  {name}:", list[str]()
    for word in text.split(" "):
        line += " "
        if len(line) + len(word) > WIDTH:
            lines.append(line)
            line = "    "
        line += word
    return "\n".join([*lines, line]) + "\n"


def _by_ruamel(name: str, value: Any) -> str:
    out = StringIO()
    writer().dump([{name: value}], out)
    return f"  {out.getvalue()[2:]}"


@lru_cache(KEPT)
def _nested_by_ruamel(name: str, value: str) -> str:
    return _by_ruamel(name, json.loads(value))


@lru_cache(1)
def writer() -> Any:
    """YAML 1.2 in blocks, with the keys in the order that they have."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.representer.add_representer(str, _scalar)
    return yaml


def _scalar(representer: Any, text: str) -> Node:
    """A scalar, in quotes if a character is escaped: by YAML, or by the stream of a terminal."""
    quoted = '"' if printable(text) != text else None
    found: Node = representer.represent_scalar("tag:yaml.org,2002:str", text, style=quoted)
    return found
