"""Fleet files as text: JSON, or YAML 1.2. Both are read with every key once, and no larger than a fleet is."""

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import Node

from external.formatting import reason_of
from fleet.files import writing, yaml_problems

LARGEST = {"JSON": 500_000_000, "YAML": 20_000_000}
"""Bytes. YAML is read at some 100 kB a second, so a fleet of more than some ten thousand sources is for JSON."""

MOST_TEXTS = 10_000

YAML_NAMES = (".yaml", ".yml")


class UnreadableFile(ValueError):
    """A file that is neither JSON nor YAML, or cannot be read. The message names the place."""


def read(file: str) -> Any:
    """The content of a file, or of standard input if it is `-`. Raises: UnreadableFile."""
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as opened:
            content = opened.read(max(LARGEST.values()) + 1)
    except OSError as error:
        raise UnreadableFile(f"cannot read {file}: {reason_of(error)}") from error
    name = "standard input" if file == "-" else Path(file).name
    form = "JSON" if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else "YAML"
    if len(content) > LARGEST[form]:
        more = "; write it as JSON" if form == "YAML" else ""
        raise UnreadableFile(f"{name} is larger than {LARGEST[form]:,} bytes{more}")
    try:
        text = content.decode("utf-8-sig")
        del content
        if form == "JSON":
            return json.loads(text, object_pairs_hook=partial(_once_each, {}), parse_constant=_refuse)
        if lost := yaml_problems.lost_to_a_comment(text):
            raise UnreadableFile(f"{name}: {lost}")
        return _yaml().load(text)
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{name} is not UTF-8 text: {error}") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UnreadableFile(f"{name} is not JSON: {where}: {error.msg.removesuffix(' at')}") from error
    except MarkedYAMLError as error:
        raise UnreadableFile(f"{name} is not YAML: {yaml_problems.explained(error, text)}") from error
    except UnreadableFile:
        raise
    except (YAMLError, ValueError) as error:
        raise UnreadableFile(f"{name} cannot be read: {error}") from error
    except RecursionError as error:
        raise UnreadableFile(f"{name} cannot be read: it is nested too deeply") from error


def write(data: Mapping[str, Iterable[writing.Row]], form: str) -> str:
    """`data` as text. `form`: JSON or YAML."""
    return "".join(writing.pieces(data.items(), form))


def form_of(file: str) -> str:
    """The form by the name of a file."""
    return "YAML" if file.endswith(YAML_NAMES) else "JSON"


class _Composer(Composer):
    def compose_node(self, parent: Node | None, index: Any) -> Any:
        """Refuse aliases: nine lines of aliases can stand for a billion values."""
        if self.parser.check_event(AliasEvent):
            mark = self.parser.peek_event().start_mark
            raise ComposerError(None, None, yaml_problems.AN_ALIAS, mark)
        return super().compose_node(parent, index)


def _yaml() -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Composer
    # a date stays the text that it is in JSON
    yaml.constructor.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: node.value)
    return yaml


def _once_each(texts: dict[str, str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises: ValueError when it has a key twice; JSON itself would drop the first.

    `texts`: the texts read before it, of which equal ones are kept once: most values of a large fleet are alike.
    """
    if len(texts) > MOST_TEXTS:
        texts.clear()
    found = {key: texts.setdefault(value, value) if isinstance(value, str) else value for key, value in pairs}
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        name = f" (in the row named {found['name']!r})" if "name" in found else ""
        raise ValueError(f"the key {twice!r} is given twice in one object{name}")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")
