"""Entries as facts and as text, and notes of actions that no row shows."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from json import dumps
from typing import Any

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Field, Model, Q, QuerySet
from django.utils import timezone

from audit.actors import Actor, actor, system_user
from audit.models import AuditEntry, Verb
from jobs.prepared_statements import storable

KEPT_FOR = timedelta(days=730)
LONGEST_NAME = 200
LONGEST_VALUE = 120
"""Characters of a value in a sentence."""

About = tuple[type[Model], Any]
"""A table, and the id of one of its rows."""


def note(model: type[Model], row_id: Any, name: str, text: str) -> None:
    """Note an action about a row, such as `Back up now`, or about many if `row_id` is None."""
    by = actor() or Actor(system_user(), "a program")
    AuditEntry.objects.create(
        who=by.who[:LONGEST_NAME], via=by.via[:LONGEST_NAME], about=model._meta.label_lower,
        row_id="" if row_id is None else str(row_id)[:LONGEST_NAME], name=storable(name)[:LONGEST_NAME], verb=Verb.DID,
        text=storable(text),
    )  # fmt: skip


def of_rows(rows: Iterable[About]) -> QuerySet[AuditEntry]:
    """Entries about these rows, and about their parents: a schedule is an origin, too."""
    wanted = Q(pk__in=[])
    for model, row_id in rows:
        for each in (model, *model._meta.get_parent_list()):
            wanted |= Q(about=each._meta.label_lower, row_id=str(row_id))
    return AuditEntry.objects.filter(wanted)


def facts(entries: Sequence[AuditEntry]) -> list[dict[str, Any]]:
    """The facts of each entry: `about` is the kind of the row as text, and `changes` maps fields to `[before, after]`;
    the rows that a field refers to are named, as far as they still exist.
    """
    named = _Names(entries)
    return [
        {
            "id": each.pk, "at": each.at, "who": each.who, "via": each.via, "about": kind_of(each.about),
            "row_id": each.row_id, "name": each.name, "verb": each.verb, "changes": named.changes(each),
            "text": each.text,
        }
        for each in entries
    ]  # fmt: skip


def sentence(found: dict[str, Any]) -> str:
    """The action, such as `changed: cron 0 3 * * * → 0 4 * * *; priority 0 → 9`."""
    if found["verb"] == Verb.DID:
        return str(found["text"])
    changes = "; ".join(changes_as_text(found))
    return f"{found['verb']}: {changes}" if changes else str(found["verb"])


def kind_of(label: str) -> str:
    """The kind of a row as text, such as `policy`, by its label. A part of a row has the kind of the whole: the origin
    of a schedule is a schedule.
    """
    try:
        model = apps.get_model(label)
    except (LookupError, ValueError):
        return label
    wholes = [each.related_model for each in model._meta.related_objects if getattr(each, "parent_link", False)]
    shown = wholes[0] if len(wholes) == 1 else model
    return str(shown._meta.verbose_name).replace("_", " ")


def prune(_before: datetime) -> int:
    """Delete entries of more than two years ago. Returns how many."""
    return AuditEntry.objects.filter(at__lt=timezone.now() - KEPT_FOR).delete()[0]


def changes_as_text(found: dict[str, Any]) -> list[str]:
    """A line per field, such as `cron 0 3 * * * → 0 4 * * *`, or `cron 0 3 * * *` of a row that is new or gone."""
    lines = []
    for field, (before, after) in found["changes"].items():
        is_new, is_gone = found["verb"] == Verb.CREATED, found["verb"] == Verb.DELETED
        value = _shown(before if is_gone else after)
        lines.append(f"{field.replace('_', ' ')} {'' if is_new or is_gone else f'{_shown(before)} → '}{value}")
    return lines


def _shown(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


class _Names:
    """The fields of columns, and the names of the rows that these refer to: one question a table."""

    def __init__(self, entries: Sequence[AuditEntry]) -> None:
        wanted: dict[type[Model], set[Any]] = {}
        for each in entries:
            for column in {*each.before, *each.after}:
                if related := _related(_field(each.about, column)):
                    ids = (each.before.get(column), each.after.get(column))
                    wanted.setdefault(related, set()).update(value for value in ids if value is not None)
        self._names = {model: model._default_manager.in_bulk(sorted(ids)) for model, ids in wanted.items()}

    def changes(self, entry: AuditEntry) -> dict[str, list[Any]]:
        found = {}
        for column in sorted({*entry.before, *entry.after}):
            field = _field(entry.about, column)
            pair = [self._value(field, entry.before.get(column)), self._value(field, entry.after.get(column))]
            found[field.name if field else column] = pair
        return found

    def _value(self, field: "Field[Any, Any] | None", value: Any) -> Any:
        if value is None or (related := _related(field)) is None:
            return value
        row = self._names[related].get(value)
        return str(row) if row else f"#{value}, deleted since"


def _field(label: str, column: str) -> "Field[Any, Any] | None":
    try:
        fields = apps.get_model(label)._meta.concrete_fields
    except (LookupError, ValueError, FieldDoesNotExist):
        return None
    return next((each for each in fields if each.column == column), None)


def _related(field: "Field[Any, Any] | None") -> type[Model] | None:
    found = getattr(field, "related_model", None)
    return found if isinstance(found, type) else None
