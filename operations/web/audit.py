"""Who did what, in the history that the admin keeps (`LogEntry`): one line for each action, however many records."""

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest

from jobs.formatting import storable
from jobs.models import BacklogRecord

LONGEST_TITLE = 200
"""Of a line, as its column has it."""


def note(request: HttpRequest, what: str, result: str, record_id: int | None = None) -> None:
    """Write that the person of `request` did `what` (as `Retry now`) to records, with what came of it.

    `record_id`: when it was one record, which shows the line on its history page.
    """
    about = f"record {record_id}" if record_id is not None else "backlog records"
    LogEntry.objects.create(
        user_id=int(request.user.pk or 0),
        content_type=ContentType.objects.get_for_model(BacklogRecord),
        object_id=None if record_id is None else str(record_id),
        object_repr=f"{about}: {what}"[:LONGEST_TITLE],
        action_flag=CHANGE,
        change_message=storable(result),
    )
