"""Options of commands from a declaration: one per field, and `--set FIELD=JSON` for fields without an option."""

import json
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from declarations.problems import WORDS_OF_TYPE
from declarations.shapes import Shape, shapes_of
from external import durations
from external.formatting import reason_of

LONGEST_JSON = 1_000_000
NOTHING = ("none", "")
"""Words for an empty value of a field."""

TYPED: dict[str, tuple[Callable[[str], Any], str]] = {
    "integer": (int, "N"),
    "number": (float, "N"),
    "string": (str, "TEXT"),
}
"""Type of a field → its reader, and its name in the help."""


def add_options(parser: ArgumentParser, declaration: type[BaseModel], but: Collection[str] = ()) -> None:
    """Add the options of a declaration, without defaults, since omitted fields stay. `but`: fields without an
    option."""
    others = []
    for name, shape in shapes_of(declaration).items():
        if name in but:
            continue
        if kwargs := _option(shape):
            parser.add_argument(option_of(name), dest=name, default=SUPPRESS, help=help_of(shape), **kwargs)
        else:
            others.append(name)
    named = ", ".join(others) or "any field"
    parser.add_argument(
        "--set", type=_field_as_json, action="append", default=SUPPRESS, metavar="FIELD=JSON",
        help=f"another field, as JSON: {named}. FIELD=@FILE reads a file, FIELD=@- standard input",
    )  # fmt: skip


def option_of(field: str) -> str:
    """The option for a field."""
    return f"--{field.replace('_', '-')}"


def help_of(shape: Shape) -> str:
    """The help text of a field, with its default."""
    usual = f" ({shape.default})" if shape.default not in (None, "", {}, []) else ""
    none = ". `none`: empty" if shape.nullable and "None:" not in shape.description else ""
    return f"{shape.description}{none}{usual}".replace("None:", "`none`:").replace("%", "%%")


def _option(shape: Shape) -> dict[str, Any]:
    """Arguments of `add_argument`; empty if no option can hold it."""
    if shape.of_texts:
        return {"nargs": "*", "metavar": "TEXT"}
    if shape.choices:
        return {"choices": shape.choices}
    if shape.type == "boolean" and not shape.nullable:
        return {"action": BooleanOptionalAction}
    if not shape.is_duration and shape.type not in TYPED:
        return {}
    return {"type": reader_of(shape), "metavar": "DURATION" if shape.is_duration else TYPED[shape.type][1]}


def reader_of(shape: Shape) -> Callable[[str], Any]:
    """The function that reads what is typed for a field; it raises ArgumentTypeError."""
    read = durations.parse if shape.is_duration else TYPED[shape.type][0]

    def value(text: str) -> Any:
        if shape.nullable and text in NOTHING:
            return None
        try:
            return read(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error) if shape.is_duration else WORDS_OF_TYPE[shape.type]) from None

    return value


def _field_as_json(written: str) -> tuple[str, Any]:
    """FIELD=JSON. Raises: ArgumentTypeError."""
    field, equals, text = written.partition("=")
    if not equals or not field:
        raise ArgumentTypeError(f"{written!r:.60} is not FIELD=JSON")
    try:
        if text == "@-":
            text = sys.stdin.read(LONGEST_JSON)
        elif text.startswith("@"):
            text = Path(text[1:]).read_text()[:LONGEST_JSON]
        return field.replace("-", "_"), json.loads(text)
    except OSError as error:
        raise ArgumentTypeError(f"{field}: {text[1:]!r} cannot be read: {reason_of(error)}") from error
    except (ValueError, RecursionError) as error:
        message = f"{field}: not JSON: {error}; write {field}='{{\"a\": 1}}', or {field}=@FILE"
        raise ArgumentTypeError(message) from error
