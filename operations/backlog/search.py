"""The search for records by a word of the user's. No index serves that, and there may be millions of records.

Unfinished records and failed ones are searched by partial indexes, and among all others only the latest. However old
they are, backups are found by the name of their source, and by a whole subject: by `backups_of_subject`.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Max, Q, QuerySet

from jobs.handlers import registry
from jobs.models import BacklogRecord
from jobs.states import UNFINISHED, Status
from operations.backlog import CALLED
from operations.backlog.selection import LATEST

OF_BACKUPS = "backup"
FIELDS = ("subject", "payload__title", "last_error")


def searched(rows: QuerySet[Any], text: str, most: int) -> list[int]:
    """The ids of the latest `most` of `rows` that have each word of `text` in the subject, the title or the error."""
    newest = BacklogRecord.objects.aggregate(pk=Max("pk"))["pk"] or 0
    with_words = rows.filter(
        *(reduce(or_, (Q(**{f"{each}__icontains": word}) for each in FIELDS)) for word in text.split())
    )
    older = with_words.filter(pk__lte=newest - LATEST).order_by()  # most of what has not ended is among the latest
    subjects = [text, *(subject for ask in CALLED for subject in ask(text))]
    looked_at: Iterable[QuerySet[Any]] = (
        with_words.filter(pk__gt=newest - LATEST).order_by("-pk"),
        *(older.filter(status=status) for status in UNFINISHED),
        older.filter(status=Status.FAILED, finished_at__isnull=False),
        rows.filter(subject__in=subjects, kind=OF_BACKUPS, finished_at__isnull=False).order_by(),
        rows.filter(subject=text, kind__in=sorted(registry.kinds), status__in=UNFINISHED).order_by(),
    )
    found = {pk for each in looked_at for pk in each.values_list("pk", flat=True)[:most]}
    return sorted(found, reverse=True)[:most]
