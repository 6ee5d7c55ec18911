"""Options of commands, from what is declared: one a field, and `--set FIELD=JSON` for what no option holds."""

import json
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser
from django.db import transaction
from pydantic import BaseModel

from declarations.service import Edit, InUse, Service, article
from declarations.shapes import Shape, shapes_of
from jobs import durations
from jobs.conf import PROGRAM
from operations.backlog.arguments import Examples
from operations.backlog.facts import as_json
from operations.management.base import VerbCommand
from operations.terminal import one_line

LONGEST_JSON = 1_000_000
NOTHING = ("none", "")
"""What is typed for a field that may be left empty."""

METAVARS = {"integer": "N", "number": "N", "string": "TEXT"}


def add_options(parser: ArgumentParser, declaration: type[BaseModel], but: Collection[str] = ()) -> None:
    """Add the options of a declaration, without defaults: what is not named is not touched. `but`: fields without."""
    others = []
    for name, shape in shapes_of(declaration).items():
        kwargs = _option(shape)
        if name in but:
            continue
        if kwargs is None:
            others.append(name)
            continue
        parser.add_argument(option_of(name), dest=name, default=SUPPRESS, help=_help(shape), **kwargs)
    named = ", ".join(others) or "any field"
    parser.add_argument(
        "--set", type=_field_as_json, action="append", default=SUPPRESS, metavar="FIELD=JSON",
        help=f"another field, as JSON: {named}. FIELD=@FILE reads a file, FIELD=@- standard input",
    )  # fmt: skip


def option_of(field: str) -> str:
    """Of a field."""
    return f"--{field.replace('_', '-')}"


def _option(shape: Shape) -> dict[str, Any] | None:
    if shape.of_texts:
        return {"nargs": "*", "metavar": "TEXT"}
    if shape.choices:
        return {"choices": shape.choices}
    if shape.type == "boolean" and not shape.nullable:
        return {"action": BooleanOptionalAction}
    if shape.is_duration:
        return {"type": _reader(durations.parse, shape), "metavar": "DURATION"}
    if shape.type in METAVARS:
        return {"type": _reader({"integer": int, "number": float, "string": str}[shape.type], shape),
                "metavar": METAVARS[shape.type]}  # fmt: skip
    return None


def _reader(read: Callable[[str], Any], shape: Shape) -> Callable[[str], Any]:
    def value(text: str) -> Any:
        if shape.nullable and text in NOTHING:
            return None
        try:
            return read(text)
        except ValueError as error:
            what = str(error) if shape.is_duration else f"{text!r:.60} is no {shape.type}"
            raise ArgumentTypeError(what) from None

    return value


def _help(shape: Shape) -> str:
    usual = f" ({shape.default})" if shape.default not in (None, "", {}, []) else ""
    none = ". `none`: empty" if shape.nullable and "None:" not in shape.description else ""
    return f"{shape.description}{none}{usual}".replace("None:", "`none`:").replace("%", "%%")


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
        raise ArgumentTypeError(f"{field}: {text[1:]!r} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        message = f"{field}: no JSON: {error}; as {field}='{{\"a\": 1}}', or {field}=@FILE"
        raise ArgumentTypeError(message) from error


class DeclaredCommand(VerbCommand):
    """A command that lists, shows, adds, sets and removes what `service` edits. Other verbs are methods, too."""

    service: ClassVar[type[Service[Any]]]
    positional: ClassVar[tuple[str, ...]] = ("name",)
    """Fields that `add` takes without an option."""

    options_by_field: ClassVar[dict[str, str]] = {}
    """Field → the option by which it is typed, where that has another name."""

    examples: ClassVar[dict[str, str]] = {}
    """Verb → what is typed after it."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.formatter_class = Examples
        parser.add_argument("--json", action="store_true", help="print JSON")
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", parser_class=CommandParser)
        title, declaration = self.service().title, self.service.declaration
        self.add_verb(verbs, "list", "list them all, as without a verb", named=False)
        self.add_verb(verbs, "show", f"show one {title}")
        adding = self.add_verb(verbs, "add", f"add {article(title)}", named=False)
        for field in self.positional:
            adding.add_argument(field, metavar=field.upper(), help=_help(shapes_of(declaration)[field]) or "its name")
        setting = self.add_verb(verbs, "set", f"change {article(title)}: what is not named stays")
        add_options(adding, declaration, but=self.positional)
        add_options(setting, declaration)
        removing = self.add_verb(verbs, "remove", f"delete {article(title)} that nothing uses")
        removing.add_argument("--yes", action="store_true", help="do it without asking")
        self.add_verbs(verbs, adding, setting)

    def add_verbs(self, verbs: Any, adding: ArgumentParser, setting: ArgumentParser) -> None:
        """Add its other verbs, and what else `add` and `set` take."""

    def add_verb(self, verbs: Any, name: str, what: str, *, named: bool = True) -> ArgumentParser:
        """Add a verb, of one row by its name unless it is not `named`."""
        command = type(self).__module__.rpartition(".")[2]
        example = self.examples.get(name)
        made: ArgumentParser = verbs.add_parser(
            name, help=what, description=f"{what[0].upper()}{what[1:]}.", formatter_class=Examples,
            epilog=f"example:\n  {PROGRAM} {command} {name} {example}" if example else None,
        )  # fmt: skip
        if named:
            made.add_argument("which", metavar="NAME", help=f"of the {self.service().title}")
        # without a default of its own, which would undo a --json before the verb
        made.add_argument("--json", action="store_true", default=SUPPRESS, help="print JSON")
        return made

    def describe_problems(self, error: ValidationError, options: dict[str, Any]) -> str:
        found = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        labels = {field: field.upper() for field in self.positional} if options["verb"] == "add" else {}
        labels |= self.options_by_field
        lines = (f"{labels.get(field, option_of(field))}: {'; '.join(texts)}" for field, texts in found.items())
        return "\n".join(["nothing was saved:", *lines])

    def found(self, options: dict[str, Any]) -> Any:
        """The row that was named. Raises: ValueError naming those there are."""
        return self.service().named(options["which"])

    def sent(self, options: dict[str, Any]) -> dict[str, Any]:
        """The fields that were named."""
        named = {name: options[name] for name in self.service.declaration.model_fields if name in options}
        return named | dict(options.get("set", ()))

    def made_service(self, options: dict[str, Any]) -> Service[Any]:
        """How `add` and `set` edit."""
        return self.service()

    def _add(self, options: dict[str, Any]) -> None:
        with transaction.atomic():
            service = self.made_service(options)
            self.edited(service.edit(service.new(), self.sent(options)), options)

    def _set(self, options: dict[str, Any]) -> None:
        if not (sent := self.sent(options)):
            raise ValueError("say what to change; `--help` lists what there is")
        self.edited(self.made_service(options).edit(self.found(options), sent), options)

    def edited(self, edit: Edit, options: dict[str, Any]) -> None:
        """Print what was added or changed."""
        raise NotImplementedError

    def _remove(self, options: dict[str, Any]) -> None:
        row, service = self.found(options), self.service()
        if obstacle := service.obstacle(row):
            raise ValueError(obstacle)
        if uses := service.uses(row):
            raise InUse(". ".join(uses))
        shown, lost = one_line(options["which"]), self.lost(row)
        if not options["yes"] and not self.is_confirmed(f"Remove the {service.title} {shown}?{lost}"):
            self.stdout.write("nothing was changed")
            return
        service.remove([row])
        facts = {"removed": options["which"]}
        self.stdout.write(as_json(facts) if options["json"] else f"{shown} is removed.{lost}")

    def lost(self, row: Any) -> str:
        """What goes with a row, as a sentence behind a space."""
        return ""
