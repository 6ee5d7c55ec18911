"""Commands of what is declared: they list, show, add, set and remove what a service edits."""

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import transaction

from declarations.service import Edit, InUse, Service, article
from declarations.shapes import shapes_of
from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.commands.options import Examples, add_options, help_of, option_of
from declarations.surfaces.terminal import Column, one_line
from jobs.conf import PROGRAM


class DeclaredCommand(VerbCommand):
    """A command that lists, shows, adds, sets and removes what `service` edits. Other verbs are methods, too."""

    service: ClassVar[type[Service[Any]]]
    positional: ClassVar[tuple[str, ...]] = ("name",)
    """Fields that `add` takes without an option."""

    options_by_field: ClassVar[dict[str, str]] = {}
    """Field → the option by which it is typed, where that has another name."""

    examples: ClassVar[dict[str, str]] = {}
    """Verb → what is typed after it."""

    columns: ClassVar[list[Column]]
    """Of the list, which says `empty` where there is no row."""

    empty: ClassVar[str]
    shown_once: ClassVar[dict[str, str]] = {}
    """Attribute of a new row → what that is, in words: told when it is made, and never again."""

    # ── what a command says of its rows ────────────────────────────────────────────────────────────────────────────

    def rows(self) -> Iterable[Any]:
        """Those that it lists."""
        return self.service().rows().order_by(self.service.named_by)

    def facts(self, row: Any) -> dict[str, Any]:
        """What it tells of a row, in its list and by itself."""
        raise NotImplementedError

    def cells(self, facts: dict[str, Any]) -> Sequence[object]:
        """What stands of that below `columns`."""
        raise NotImplementedError

    # ── what is the same for all ───────────────────────────────────────────────────────────────────────────────────

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.formatter_class = Examples
        parser.add_argument("--json", action="store_true", help="print JSON")
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
        title, declaration = self.service().title, self.service.declaration
        self.add_verb(verbs, "list", "list them all, as without a verb", named=False)
        self.add_verb(verbs, "show", f"show one {title}")
        adding = self.add_verb(verbs, "add", f"add {article(title)}", named=False)
        for field in self.positional:
            adding.add_argument(field, metavar=field.upper(), help=help_of(shapes_of(declaration)[field]) or "its name")
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

    def _list(self, options: dict[str, Any]) -> None:
        self.list_out(list(map(self.facts, self.rows())), self.columns, self.cells, self.empty)

    def _show(self, options: dict[str, Any]) -> None:
        self.show_out(self.facts(self.found(options)))

    def _add(self, options: dict[str, Any]) -> None:
        with transaction.atomic():
            service = self.made_service(options)
            self.report(service.edit(service.new(), self.sent(options)), options)

    def _set(self, options: dict[str, Any]) -> None:
        if not (sent := self.sent(options)):
            raise ValueError("say what to change; `--help` lists what there is")
        self.report(self.made_service(options).edit(self.found(options), sent), options)

    def report(self, edit: Edit, options: dict[str, Any]) -> None:
        """Print what was added or changed, and what that warns of."""
        self.edited(edit, options)
        self.warn(edit.row, edit.warnings)

    def warn(self, row: Any, warnings: list[str]) -> None:
        for text in warnings:
            self.stderr.write(self.style.WARNING(f"{one_line(row.name)}: {one_line(text)}"))

    def edited(self, edit: Edit, options: dict[str, Any]) -> None:
        """Print what was added or changed."""
        is_new = edit.changed is None
        secrets = {name: getattr(edit.row, name, None) for name in self.shown_once} if is_new else {}
        shown = [f"its {self.shown_once[name]}, shown this once: {value}" for name, value in secrets.items() if value]
        done = f"{one_line(edit.row)} is {'there' if is_new else 'changed'}"
        self.answer(self.facts(edit.row) | secrets, done, *shown)

    def _remove(self, options: dict[str, Any]) -> None:
        row, service = self.found(options), self.service()
        if obstacle := service.obstacle(row):
            raise ValueError(obstacle)
        if uses := service.uses(row):
            raise InUse(". ".join(uses))
        shown, lost = one_line(options["which"]), self.lost(row)
        if self.is_agreed(options, f"Remove the {service.title} {shown}?{lost}"):
            service.remove([row])
            self.answer({"removed": options["which"]}, f"{shown} is removed.{lost}")

    def lost(self, row: Any) -> str:
        """What goes with a row, as a sentence behind a space."""
        return ""
