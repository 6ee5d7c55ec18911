"""The rules for migrations of tables that a release uses, while workers of that release continue.

removed    the release reads or writes it; allowed in a migration whose `contracts_after` the release has
empty      the release leaves the column out of its inserts, and the database has no default for it
altered    the release reads and writes other values in the column
refused    the release does not know the constraint, and may break it
locked     an index or a check reads a large table while all others wait
batches    rows of a large table are changed in one transaction
function   the release also calls the replaced function of the database
several    more than one operation without a transaction around them
unknown    these rules do not know the operation
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.postgres import operations as postgres
from django.db import migrations, models
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import NOT_PROVIDED

from jobs.online import BuildIndex, UpdateInBatches
from proving.upgrades.large import LARGE

HARMLESS = (
    migrations.AlterModelManagers, migrations.AlterModelOptions, migrations.AlterModelTableComment,
    migrations.AlterOrderWithRespectTo, postgres.ValidateConstraint, BuildIndex,
    UpdateInBatches,
)  # fmt: skip
REMOVES = re.compile(
    r"\b(DROP\s+(TABLE|COLUMN|FUNCTION|VIEW|INDEX|TRIGGER|TYPE)|RENAME|SET\s+NOT\s+NULL)\b", re.IGNORECASE
)
ALTERS = re.compile(r"\bALTER\s+(COLUMN\s+)?\S+\s+(SET\s+DATA\s+)?TYPE\b", re.IGNORECASE)
FUNCTION = re.compile(r"\bCREATE\s+(OR\s+REPLACE\s+)?(FUNCTION|PROCEDURE|TRIGGER|VIEW)\b", re.IGNORECASE)
INDEX = re.compile(r"\bCREATE\s+(UNIQUE\s+)?INDEX\b(?!\s+CONCURRENTLY)", re.IGNORECASE)
CHANGES_ROWS = re.compile(r"\b(UPDATE|DELETE\s+FROM|INSERT\s+INTO)\b", re.IGNORECASE)


@dataclass(frozen=True)
class MigrationProblem:
    """A violation of a rule by a migration, `app.name`."""

    migration: str
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.migration}: {self.rule}: {self.what}"


@dataclass
class MigrationLook:
    """One look at the migrations since a release, in their order. Tables that they create are not the release's."""

    released: frozenset[tuple[str, str]]
    """App and name of each of the release's migrations."""
    new_models: set[tuple[str, str]] = field(default_factory=set)
    new_fields: set[tuple[str, str, str]] = field(default_factory=set)

    def problems(self, migration: migrations.Migration, before: ProjectState) -> list[MigrationProblem]:
        """The problems of the next migration; `before`: the models as they are before it."""
        name = f"{migration.app_label}.{migration.name}"
        after = getattr(migration, "contracts_after", None)
        found: list[tuple[str, str]] = []
        if after and tuple(after) not in self.released:
            found.append(("removed", f"contracts_after names {'.'.join(after)}, which the release does not have"))
        if not migration.atomic and len(migration.operations) > 1:
            found.append(("several", "an operation without a transaction needs a separate migration"))
        state = before.clone()
        for operation in migration.operations:
            parts = operation if isinstance(operation, migrations.SeparateDatabaseAndState) else None
            for each in parts.database_operations if parts else [operation]:
                found += self._in_database(migration.app_label, each, state)
            for each in parts.state_operations if parts else []:
                found += self._in_state(migration.app_label, each, state)
            operation.state_forwards(migration.app_label, state)
        if after and tuple(after) in self.released:
            found = [(rule, what) for rule, what in found if rule != "removed"]
        return [MigrationProblem(name, rule, what) for rule, what in found]

    def _in_state(self, app: str, operation: Operation, state: ProjectState) -> Iterator[tuple[str, str]]:
        """Yields the problems of an operation on models alone: a field that is left out of inserts from now on."""
        if isinstance(operation, migrations.RemoveField):
            gone = _field(state, app, operation.model_name, operation.name)
            if not _is_filled(gone):
                yield (
                    "empty",
                    f"{operation.model_name}.{operation.name} gets no value any more: null or db_default first",
                )

    def _in_database(self, app: str, operation: Operation, state: ProjectState) -> Iterator[tuple[str, str]]:
        match operation:
            case migrations.CreateModel():
                self.new_models.add((app, operation.name_lower))
            case migrations.DeleteModel():
                yield from self._removes(app, operation.name_lower, operation.name, state)
            case migrations.RemoveField() if (app, operation.model_name_lower, operation.name) not in self.new_fields:
                yield from self._removes(app, operation.model_name_lower, f"column {operation.name}", state)
            case migrations.RenameField() | migrations.AlterModelTable() | migrations.RenameModel():
                names = (getattr(operation, name, "") for name in ("model_name_lower", "name_lower", "old_name_lower"))
                yield from self._removes(app, next(filter(None, names)), operation.describe(), state)
            case migrations.AddField():
                yield from self._adds(app, operation, state)
            case migrations.AlterField():
                yield from self._alters(app, operation, state)
            case migrations.AddIndex() if not isinstance(operation, BuildIndex):
                if self._is_large(app, operation.model_name_lower, state):
                    yield "locked", f"index {operation.index.name}: jobs.online.BuildIndex"
            case migrations.RemoveIndex() | migrations.RenameIndex():
                if self._is_large(app, operation.model_name_lower, state):
                    yield "removed", f"{operation.describe()}: the release finds rows by it"
            case migrations.RemoveConstraint():
                if _is_unique(state, app, operation):
                    yield "removed", f"{operation.name}: the release inserts ON CONFLICT with it"
            case migrations.AddConstraint():
                yield from self._constrains(app, operation, state)
            case migrations.RunSQL():
                yield from self._runs(str(operation.sql))
            case migrations.RunPython():
                yield "batches", "RunPython: jobs.online.UpdateInBatches, or say that its table is small"
            case migrations.RemoveField():
                pass
            case _ if not isinstance(operation, HARMLESS):
                yield "unknown", type(operation).__name__

    def _removes(self, app: str, model: str, what: str, state: ProjectState) -> Iterator[tuple[str, str]]:
        if (app, model) not in self.new_models and _has_table(state, app, model):
            yield "removed", f"{app}.{model}: {what}: leave the table, and remove it from the model's state alone"

    def _adds(self, app: str, operation: Any, state: ProjectState) -> Iterator[tuple[str, str]]:
        added, model = operation.field, operation.model_name_lower
        self.new_fields.add((app, model, operation.name))
        if (app, model) in self.new_models or added.many_to_many:
            return
        if not _is_filled(added):
            yield "empty", f"{model}.{operation.name}: the release inserts rows without it: null or db_default"
        if self._is_large(app, model, state):
            if added.unique or added.db_index:
                yield "locked", f"{model}.{operation.name}: its index reads the table: jobs.online.BuildIndex"
            if added.remote_field and added.db_constraint:
                yield "locked", f"{model}.{operation.name}: its foreign key is checked at once: db_constraint=False"
            if isinstance(added, models.GeneratedField):
                yield "locked", f"{model}.{operation.name}: the table is written again"

    def _alters(self, app: str, operation: Any, state: ProjectState) -> Iterator[tuple[str, str]]:
        model, new = operation.model_name_lower, operation.field
        if (app, model) in self.new_models:
            return
        old, name = _field(state, app, model, operation.name), f"{model}.{operation.name}"
        if old.null and not new.null:
            yield "empty", f"{name}: the release may leave it empty"
        if (
            old.get_internal_type() != new.get_internal_type()
            or _is_shorter(old, new)
            or old.db_column != new.db_column
        ):
            yield "altered", f"{name}: the release reads and writes other values there"
        if self._is_large(app, model, state) and (new.unique, new.db_index) > (old.unique, old.db_index):
            yield "locked", f"{name}: its index reads the table: jobs.online.BuildIndex"

    def _constrains(self, app: str, operation: Any, state: ProjectState) -> Iterator[tuple[str, str]]:
        model, constraint = operation.model_name_lower, operation.constraint
        if (app, model) in self.new_models:
            return
        if not self._is_of_new_columns(app, model, constraint):
            yield "refused", f"{constraint.name}: rows that the release writes may break it"
        is_later = isinstance(operation, postgres.AddConstraintNotValid)
        if self._is_large(app, model, state) and not is_later:
            yield "locked", f"{constraint.name}: AddConstraintNotValid, and ValidateConstraint in another migration"

    def _is_of_new_columns(self, app: str, model: str, constraint: Any) -> bool:
        """True for a check that mentions a column which the release does not write. It may replace one that did not."""
        return any(
            re.search(rf"\b{name}(\b|__)", repr(constraint))
            for in_app, in_model, name in self.new_fields
            if (in_app, in_model) == (app, model)
        )

    def _runs(self, sql: str) -> Iterator[tuple[str, str]]:
        large = sorted(each for each in LARGE if re.search(rf"\b{each}\b", sql))
        short = " ".join(sql.split())[:80]
        if REMOVES.search(sql):
            yield "removed", f"SQL: {short}"
        if ALTERS.search(sql):
            yield "altered", f"SQL: {short}"
        if FUNCTION.search(sql):
            yield "function", f"the release also uses what is replaced: {short}"
        if large and INDEX.search(sql):
            yield "locked", f"an index of {', '.join(large)}: jobs.online.BuildIndex"
        if large and CHANGES_ROWS.search(sql):
            yield "batches", f"rows of {', '.join(large)}: jobs.online.UpdateInBatches"

    def _is_large(self, app: str, model: str, state: ProjectState) -> bool:
        if (app, model) in self.new_models:
            return False
        options = state.models[app, model].options
        return (options.get("db_table") or f"{app}_{model}") in LARGE


def _field(state: ProjectState, app: str, model: str, name: str) -> Any:
    return state.models[app, model.lower()].fields[name]


def _is_filled(each: Any) -> bool:
    """True if a row that is inserted without it has a value, or may be without one."""
    return bool(each.null or each.many_to_many or each.db_default is not NOT_PROVIDED)


def _is_shorter(old: Any, new: Any) -> bool:
    lengths = getattr(old, "max_length", None), getattr(new, "max_length", None)
    return lengths[1] is not None and (lengths[0] is None or lengths[1] < lengths[0])


def _is_unique(state: ProjectState, app: str, operation: Any) -> bool:
    constraints = state.models[app, operation.model_name_lower].options.get("constraints", [])
    return any(each.name == operation.name and isinstance(each, models.UniqueConstraint) for each in constraints)


def _has_table(state: ProjectState, app: str, model: str) -> bool:
    options = state.models[app, model].options if (app, model) in state.models else {}
    return not options.get("proxy") and options.get("managed", True)
