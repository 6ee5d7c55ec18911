"""Edits of rows as they are declared, by the API, the admin, a command or a fleet file.

    fill    give a row the sent values, and check it: by its declaration, then by the rules that need the database
    write   write the changes, and their effects in the database
    finish  effects outside of the database, such as a directory; a dry run leaves them out
    remove  delete rows that nothing uses

A caller holds a transaction around `fill` and `write`, with the row locked. A service is made for one edit, or for one
section of a fleet file: it remembers its look-ups.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import ForeignKey, Model, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.db.models.expressions import RawSQL
from pydantic import BaseModel

import declarations
from declarations import InUse as InUse
from declarations.problems import validated
from declarations.unknown import article, named, nothing_named
from external.formatting import some_of

AT_ONCE = 1_000
"""Rows that are read in one statement, where all are read."""
Row = TypeVar("Row", bound=Model)
Value = TypeVar("Value")


class Edit(NamedTuple):
    """An edit that was made. `changed`: the fields that differ, None if the row is new. `warnings` are for users."""

    row: Any
    changed: set[str] | None
    warnings: list[str]


class FinishResult(NamedTuple):
    """The results outside of the database: failures, and further notes for users."""

    failed: Sequence[str] = ()
    warnings: Sequence[str] = ()


class Service(Generic[Row]):
    """Edits of rows of `model` as `declaration` describes them. `account`: the user, with their permissions; None is
    allowed everything.
    """

    model: ClassVar[type[Any]]
    declaration: ClassVar[type[BaseModel]]
    named_by: ClassVar[str] = "name"
    """The path from the model to the name of a row."""

    def __init__(self, account: Any = None, by: str = "a user at the command line") -> None:
        self.account, self.by = account, account.get_username() if account else by
        self._known: dict[Any, Any] = {}
        self.free: set[str] = set()
        """Names that are known as free, or need not be."""
        self.before: dict[str, Any] = {}
        """The declared values that the row which was filled last had before; empty for a new one."""

    # ── defined by each resource ───────────────────────────────────────────────────────────────────────────────────

    def rows(self) -> QuerySet[Any]:
        """All rows, with the rows that they refer to."""
        references = [name for name in self.declaration.model_fields if self._reference(self.model, name)]
        return self.model._default_manager.select_related(*references)  # type: ignore[no-any-return]

    def new(self) -> Row:
        """A row that is not saved yet."""
        row: Row = self.model()
        return row

    def holder(self, row: Row, field: str) -> Any:
        """The row that has a declared field: itself, or another that is edited as one thing with it."""
        return row

    def declared_rows(self) -> QuerySet[Any]:
        """The rows that are declared by themselves, and not as a part of another."""
        return self.rows()

    def by_name(self) -> Iterator[Any]:
        """The declared rows in the order of their names, read some at a time."""
        rows = self.declared_rows().order_by(self.named_by)
        found = self.together(list(rows[:AT_ONCE]))
        while found:
            yield from found
            further = rows.filter(**{f"{self.named_by}__gt": self.name_of(found[-1])})
            found = self.together(list(further[:AT_ONCE])) if len(found) == AT_ONCE else []

    def together(self, rows: list[Any]) -> list[Any]:
        """Rows that were read at once, with the facts that are looked up for all of them together."""
        return rows

    def lock(self, row_id: int) -> bool:
        """Lock a row, with those that are edited together with it, until the transaction ends. False if there is no
        such row.
        """
        rows = self.model._default_manager.filter(pk=row_id)
        return rows.select_for_update(no_key=True).values_list("pk").first() is not None

    def obstacle(self, row: Row) -> str:
        """The reason why a row is neither changed nor deleted by itself; empty if it may be."""
        return ""

    def problems(self, row: Row, changed: set[str] | None) -> dict[str, str]:
        """Problems with a row beyond its declaration, by field. May clear values that the account may not keep."""
        return {}

    def write(self, row: Row, changed: set[str] | None) -> list[str]:
        """Write a checked row: changed fields, and no machine-written ones. Returns warnings."""
        row.save(update_fields=None if changed is None else sorted(changed))
        return []

    def write_all(self, edits: Sequence[tuple[Row, set[str] | None]]) -> list[str]:
        """The same of many rows."""
        return [f"{self.title} {row}: {text}" for row, changed in edits for text in self.write(row, changed)]

    def all_written(self) -> list[str]:
        """Warnings about the rows of a file, once all of them are written."""
        return []

    def finish(self, row: Row) -> FinishResult:
        """Carry out the effects outside of the database."""
        return FinishResult()

    def uses(self, row: Row) -> list[str]:
        """The uses that keep a row from being deleted, as sentences with what to do, without full stops."""
        return [text for use_of in declarations.uses if (text := use_of(row))]

    def obstacles(self, row: Row) -> list[str]:
        """The reasons why a row is not deleted, as sentences without full stops; empty if it is."""
        return [obstacle] if (obstacle := self.obstacle(row)) else self.uses(row)

    def delete(self, row: Row) -> None:
        """Delete a row that nothing uses, with its dependent rows."""
        row.delete()

    # ── the same for all ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def title(self) -> str:
        """The name of one such row as text."""
        return str(self.model._meta.verbose_name)

    def values(self, row: Row) -> dict[str, Any]:
        """A row as it is declared: references are names."""
        found = {name: getattr(self.holder(row, name), name) for name in self.declaration.model_fields}
        return {name: value.name if isinstance(value, Model) else value for name, value in found.items()}  # type: ignore[attr-defined]

    def ids(self, row: Row) -> dict[str, int | None]:
        """The ids of the rows that a row refers to: a reference has changed if these differ, and not if a name does."""
        holders = {name: self.holder(row, name) for name in self.declaration.model_fields}
        return {name: getattr(each, f"{name}_id") for name, each in holders.items() if self._reference(each, name)}

    def name_of(self, row: Any) -> str:
        """The name of a row, without loading its other fields."""
        return str(attrgetter(self.named_by.replace(LOOKUP_SEP, "."))(row))

    def named(self, name: str) -> Row:
        """The row of that name. Raises: ValueError naming existing ones."""
        found: Row = named(self.rows(), name, self.named_by)
        return found

    def existing(self, names: Collection[str]) -> dict[str, Row]:
        """The rows that have one of these names. The other names are known as free from now on."""
        chosen = RawSQL("SELECT unnest(%s::text[])", [list(names)])  # one value: psycopg takes its time for each
        rows = self.rows().filter(**{f"{self.named_by}__in": chosen})
        found = {self.name_of(row): row for row in self.together(list(rows))}
        lacking = set(names) - found.keys()
        self.free = lacking - set(self._taken(lacking)) if lacking else lacking
        return found

    def fill(self, row: Row, sent: dict[str, Any]) -> set[str] | None:
        """Give a row the sent values; omitted ones stay. Returns the fields that differ now. None for a new row.

        Raises: ValidationError with all problems, by field.
        """
        before = self.before = self.values(row) if row.pk else {}
        try:
            declared = dict(validated(self.declaration, before | sent))
        except ValidationError as error:
            wrong: dict[str, Any] = error.message_dict
            right = {name: sent[name] for name in sent.keys() & self.declaration.model_fields.keys() - wrong.keys()}
            names = {name: value for name, value in right.items() if value and self.refers(row, name)}
            raise ValidationError({**wrong, **self._put(row, names)}) from error
        differs = {name: value for name, value in declared.items() if name not in before or before[name] != value}
        problems = self._put(row, differs)
        changed = set(differs) if row.pk else None
        if "name" in differs and differs["name"] not in self.free and list(self._taken([differs["name"]])):
            problems.setdefault("name", f"there is {article(self.title)} with this name already")
        for field, text in self.problems(row, changed).items():
            problems.setdefault(field, text)
        if problems:
            raise ValidationError(dict(problems))
        return changed

    def save(self, row: Row, changed: set[str] | None) -> list[str]:
        """Write a row that was filled, with its effects. Returns warnings, for users."""
        found = self.write(row, changed)
        failed, warnings = self.finish(row)
        return [*found, *failed, *warnings]

    @transaction.atomic
    def edit(self, row: Row, sent: dict[str, Any]) -> Edit:
        """Create a row, or change one as it is now. Raises: ValidationError by field; ValueError for an obstacle."""
        if row.pk:
            self.lock(row.pk)
            row = self.rows().get(pk=row.pk)
            if obstacle := self.obstacle(row):
                raise ValueError(obstacle)
        changed = self.fill(row, sent)
        return Edit(row, changed, self.save(row, changed) if changed or changed is None else [])

    @transaction.atomic
    def remove(self, rows: Iterable[Row]) -> None:
        """Delete rows, all or none. Raises: InUse naming their uses; ProtectedError."""
        for row in rows:
            self.lock(row.pk)
            if found := self.obstacles(row):
                raise InUse(". ".join(found))
            self.delete(row)
        connection.check_constraints()  # a use that began in the meantime is found here, and not at the commit

    def refers(self, row: Row, field: str) -> bool:
        """True if a declared field holds names of other rows."""
        return self._reference(self.holder(row, field), field) is not None

    def remembered(self, key: Any, look: Callable[[], Value]) -> Value:
        """The result of `look`, called once for all rows of this edit."""
        if key not in self._known:
            self._known[key] = look()
        value: Value = self._known[key]
        return value

    def _taken(self, names: Collection[str]) -> Iterable[str]:
        """The names among these that are taken."""
        rows = self.model._default_manager.filter(**{f"{self.named_by}__in": names})
        return rows.values_list(self.named_by, flat=True)  # type: ignore[no-any-return]

    def _put(self, row: Row, values: dict[str, Any]) -> dict[str, str]:
        """Set fields; names become the rows that they refer to. Returns messages about unknown names, by field."""
        missing = {}
        for name, value in values.items():
            holder = self.holder(row, name)
            related = self._reference(holder, name)
            if related and value is not None:
                value = self.remembered((related, value), related._default_manager.filter(name=value).first)
                if value is None:
                    missing[name] = nothing_named(related, "name", values[name])
                    continue
            setattr(holder, name, value)
        return missing

    @staticmethod
    def _reference(model: Any, name: str) -> Any:
        """The model that a field refers to; None if it is not a reference."""
        fields = (each for each in model._meta.concrete_fields if each.name == name and isinstance(each, ForeignKey))
        return next((each.related_model for each in fields), None)


def used_by(what: str, users: str, names: Sequence[str], more: str) -> str:
    """The reason why something is not deleted, such as `slow is used by the schedule nightly: give it another throttle
    first`.
    """
    plural = f"{users[:-1]}ies" if users.endswith("y") else f"{users}s"
    title, them = (plural, "them") if len(names) > 1 else (users, "it")
    return f"{what} is used by the {title} {some_of(names)}: give {them} another {more} first"
