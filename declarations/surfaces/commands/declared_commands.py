"""Commands of declared rows: they list, show, add, set, rename and remove the rows of a service."""

from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction

from declarations import InUse
from declarations.surfaces.commands.nouns import Fill, NounCommand
from declarations.surfaces.terminal import Column, one_line
from declarations.unknown import article

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from declarations.service import Edit, Service


class DeclaredCommand(NounCommand):
    """A noun whose rows `service` edits: it lists, shows, adds, sets, renames and removes them."""

    service: "ClassVar[type[Service[Any]]]"
    positional: ClassVar[tuple[str, ...]] = ("name",)
    """Fields that `add` takes without an option."""

    options_by_field: ClassVar[dict[str, str]] = {}
    """Field → the option by which it is typed, where that has another name."""

    columns: ClassVar[list[Column]]
    """The columns of the list, which prints `empty` if there are no rows."""

    empty: ClassVar[str]
    each: frozenset[str] = frozenset()
    """Verbs that are carried out for several rows, one after the other."""

    shown_once: ClassVar[dict[str, str]] = {}
    """Attribute of a new row → its name as text: printed when the row is made, and never again."""

    # ── defined by each command ────────────────────────────────────────────────────────────────────────────────────

    @property
    def title(self) -> str:
        """The name of one such row as text."""
        return self.service().title

    def rows(self) -> "QuerySet[Any]":
        """The rows of the list."""
        rows: QuerySet[Any] = self.service().rows().order_by(self.service.named_by)
        return rows

    def facts(self, row: Any) -> dict[str, Any]:
        """The facts of a row that a list, and `show`, print."""
        raise NotImplementedError

    def cells(self, facts: dict[str, Any]) -> Sequence[object]:
        """The cells of a row of the list, below `columns`."""
        raise NotImplementedError

    # ── the same for all ───────────────────────────────────────────────────────────────────────────────────────────

    def add_verbs(self, verbs: Any) -> None:
        title = self.title
        self.add_verb(verbs, "list", "list them all, as without a verb", later=self.list_arguments)
        self.add_each(verbs, "show", f"show one {title}, or several")
        self.add_verb(verbs, "add", f"add {article(title)}", later=self._adding)
        what = f"change {article(title)}, or several, all or none; fields that are not named stay as they are"
        self.add_named(verbs, "set", what, several=True, later=self._setting)
        self.add_named(verbs, "rename", f"give {article(title)} another name", later=self._renaming)
        what = f"delete {article(title)} that nothing uses"
        removing = self.add_named(verbs, "remove", what, several=True, later=self.remove_arguments)
        removing.add_argument("--yes", action="store_true", help="do it without asking")
        self.add_more_verbs(verbs)

    def add_more_verbs(self, verbs: Any) -> None:
        """Add its other verbs."""

    def list_arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments of `list`."""

    def remove_arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments of `remove` in addition to names."""

    def add_to_changes(self, changes: ArgumentParser) -> None:
        """Add the arguments of `add` and `set` in addition to the fields."""

    def add_named(
        self, verbs: Any, name: str, what: str, *, several: bool = False, later: Fill | None = None
    ) -> ArgumentParser:
        """Add a verb of one row, or of `several`, by name."""
        made = self.add_verb(verbs, name, what, later=later)
        if several:
            made.add_argument("names", nargs="+", metavar="NAME", help=f"of a {self.title}; several may be given")
        else:
            made.add_argument("which", metavar="NAME", help=f"of the {self.title}")
        return made

    def add_each(self, verbs: Any, name: str, what: str, *, later: Fill | None = None) -> ArgumentParser:
        """Add a verb of several rows, the method of which does it for one: it finds that by `found`."""
        self.each = self.each | {name}
        return self.add_named(verbs, name, what, several=True, later=later)

    def do(self, verb: str, options: dict[str, Any]) -> None:
        if verb not in self.each:
            super().do(verb, options)
            return
        names = list(map(self.service().name_of, self.all_found(options)))  # with an unknown one nothing is done
        one = super().do
        self.one_by_one(names, lambda name: one(verb, options | {"which": name}))

    def _adding(self, parser: ArgumentParser) -> None:
        from declarations.shapes import shapes_of  # loads pydantic, which a list does without
        from declarations.surfaces.commands.options import add_options, help_of

        declaration = self.service.declaration
        for field in self.positional:
            parser.add_argument(field, metavar=field.upper(), help=help_of(shapes_of(declaration)[field]) or "its name")
        add_options(parser, declaration, but=self.positional)
        self.add_to_changes(parser)

    def _setting(self, parser: ArgumentParser) -> None:
        from declarations.surfaces.commands.options import add_options

        add_options(parser, self.service.declaration)
        self.add_to_changes(parser)

    def _renaming(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NEW", help="the new name")

    def describe_problems(self, error: ValidationError, options: dict[str, Any]) -> str:
        from declarations.surfaces.commands.options import option_of

        found = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        labels = {field: field.upper() for field in self.positional} if options["verb"] == "add" else {}
        labels |= self.options_by_field | ({"name": "NEW"} if options["verb"] == "rename" else {})
        lines = (f"{labels.get(field, option_of(field))}: {'; '.join(texts)}" for field, texts in found.items())
        return "\n".join(["nothing was saved:", *lines])

    def found(self, options: dict[str, Any]) -> Any:
        """The row that was named. Raises: ValueError naming existing ones."""
        return self.service().named(options["which"])

    def all_found(self, options: dict[str, Any]) -> list[Any]:
        """The rows that were named, each once. Raises: ValueError as `found`."""
        service = self.service()
        return [service.named(name) for name in dict.fromkeys(options["names"])]

    def sent(self, options: dict[str, Any]) -> dict[str, Any]:
        """The fields that were named."""
        named = {name: options[name] for name in self.service.declaration.model_fields if name in options}
        return named | dict(options.get("set", ()))

    def made_service(self, options: dict[str, Any]) -> "Service[Any]":
        """The service by which `add` and `set` edit."""
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
            raise ValueError("name a field to change; `--help` lists them")
        rows, edits = self.all_found(options), []
        with transaction.atomic() if len(rows) > 1 else nullcontext():
            for row in rows:
                try:
                    edits.append(self.made_service(options).edit(row, sent))
                except ValidationError as error:
                    if len(rows) == 1:
                        raise
                    problems = self.describe_problems(error, options)
                    raise CommandError(f"{one_line(self.service().name_of(row))}: {problems}", returncode=2) from error
        for edit in edits:
            self.report(edit, options)

    def _rename(self, options: dict[str, Any]) -> None:
        self.report(self.made_service(options).edit(self.found(options), {"name": options["name"]}), options)

    def report(self, edit: "Edit", options: dict[str, Any]) -> None:
        """Print additions and changes, and their warnings."""
        self.edited(edit, options)
        self.warn(edit.row, edit.warnings)

    def warn(self, row: Any, warnings: list[str]) -> None:
        name = one_line(self.service().name_of(row))
        for text in warnings:
            self.stderr.write(self.style.WARNING(f"{name}: {one_line(text)}"))

    def edited(self, edit: "Edit", options: dict[str, Any]) -> None:
        """Print additions and changes."""
        is_new = edit.changed is None
        secrets = {name: getattr(edit.row, name, None) for name in self.shown_once} if is_new else {}
        shown = [f"its {self.shown_once[name]}, shown this once: {value}" for name, value in secrets.items() if value]
        done = f"{one_line(edit.row)} was {'added' if is_new else 'changed'}"
        self.answer(self.facts(edit.row) | secrets, done, *shown)

    def _remove(self, options: dict[str, Any]) -> None:
        """Remove all or none: one that cannot be removed keeps the others."""
        rows, service = self.all_found(options), self.service()
        for row in rows:
            if obstacle := service.obstacle(row):
                raise ValueError(obstacle)
            if uses := service.uses(row):
                raise InUse(". ".join(uses))
        names = [service.name_of(row) for row in rows]
        shown, lost = one_line(", ".join(names)), "".join(self.lost(row) for row in rows)
        if self.is_agreed(options, f"Remove the {service.title} {shown}?{lost}"):
            service.remove(rows)
            self.answer({"removed": names}, f"{shown} {'is' if len(names) == 1 else 'are'} removed.{lost}")

    def lost(self, row: Any) -> str:
        """The data that is lost with a row, as a sentence after a space."""
        return ""
