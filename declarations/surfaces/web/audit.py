"""Who did what, in the history that the admin keeps (`LogEntry`): one line for each action, however many records."""

from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest

from jobs.models import BacklogRecord
from jobs.prepared import storable

LONGEST_TITLE = 200
"""Of a line, as its column has it."""


def write(request: HttpRequest, model: type[Model], row_id: Any, title: str, message: str, flag: int = CHANGE) -> None:
    """Write a line about a row, which shows it on its history page; about none where `row_id` is None."""
    LogEntry.objects.create(
        user_id=int(request.user.pk or 0),
        content_type=ContentType.objects.get_for_model(model),
        object_id=None if row_id is None else str(row_id),
        object_repr=title[:LONGEST_TITLE],
        action_flag=flag,
        change_message=storable(message),
    )


def note(request: HttpRequest, what: str, result: str, record_id: int | None = None) -> None:
    """Write that the person of `request` did `what` (as `Retry now`) to one record or to many, with what came of it."""
    about = f"record {record_id}" if record_id is not None else "backlog records"
    write(request, BacklogRecord, record_id, f"{about}: {what}", result)
