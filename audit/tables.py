"""The tables that are followed, and their columns.

An app names its own, in `ready`. Columns that users edit are followed: machines move the columns that a model calls not
editable, many times a day, and that costs nothing here, since no trigger fires for them.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import Field, Model


@dataclass(frozen=True)
class AuditedTable:
    """A table. `hidden`: columns whose values are kept back. `title`: the column, or the SQL of `$1`, the row as JSON,
    that names a row for users.
    """

    model: type[Model]
    columns: tuple[str, ...]
    hidden: tuple[str, ...]
    title: str

    @property
    def table(self) -> str:
        return self.model._meta.db_table

    @property
    def label(self) -> str:
        return self.model._meta.label_lower


followed: dict[str, AuditedTable] = {}
"""Table → the columns that are followed."""


def follow(
    model: type[Model],
    *,
    title: str = "name",
    also: Collection[str] = (),
    hidden: Collection[str] = (),
    without: Collection[str] = (),
) -> None:
    """Follow a table from the next migration on. `also`: fields that users change outside of its forms; `hidden`:
    fields of which only the fact of a change is written, such as secrets; `without`: editable fields that machines
    write after all.
    """
    also = {*also, *hidden}
    fields = [field for field in model._meta.local_concrete_fields if _is_edited(field, also, without)]
    secret = tuple(str(field.column) for field in fields if field.name in hidden)
    found = AuditedTable(model, tuple(str(field.column) for field in fields), secret, title)
    followed[found.table] = found


def named(table: str, column: str, title: str = "name") -> str:
    """The title of a row that has the name of another one: of `table`, to which `column` refers."""
    return f"(SELECT {title} FROM {table} WHERE id = ($1 ->> '{column}')::bigint)"


def _is_edited(field: "Field[Any, Any]", also: Collection[str], without: Collection[str]) -> bool:
    is_link = field.primary_key and (field.remote_field is not None or not field.editable or field.name == "id")
    return field.name in also or (field.editable and not is_link and field.name not in without)
