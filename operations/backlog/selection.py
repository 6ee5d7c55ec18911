"""The selection of records: the filters that the list of the admin, the API and the commands share.

An event is a record of a kind that delivers; the answer of its receiver is stored in the facts of its last attempt. No
filter counts anything: there may be millions of records.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db import transaction
from django.db.models import BooleanField, Exists, ExpressionWrapper, Max, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce

from delivery.models import EndpointKind
from jobs.handlers import registry
from jobs.models import Attempt, BacklogRecord, PausedQueue
from jobs.states import FINISHED, UNFINISHED, Status
from operations.backlog.dead_letters import ids_like

Rows = QuerySet[Any]

STATUSES: dict[str, tuple[Status, ...]] = {str(status.label): (status,) for status in Status} | {
    "unfinished": UNFINISHED
}
"""The name of a status → the statuses that it means."""

EVENT_ID = re.compile(r"(\d{1,18})-(\d{8}T\d{6})Z-\d+")
"""Schedule, launch time and number."""

ANSWERS = ("2xx", "3xx", "4xx", "5xx", "none")
"""The answers to the last attempt at an event; `none`: it was tried, and nothing answered."""


def filtered(rows: Rows, asked: Mapping[str, Any]) -> Rows:
    """The rows of `rows` that match `asked`: names of FILTERS → values."""
    is_undelivered = asked.get("answer", "2xx") != "2xx"
    for name, value in asked.items():
        # two sets of ids that the database finds itself would be compared one by one
        if name == "status" and ("error" in asked or is_undelivered):
            rows = rows.filter(in_status(value))
        elif name == "answer" and is_undelivered:
            rows = _undelivered(rows, value, asked.get("status"), are_few="error" in asked or "group" in asked)
        else:
            rows = FILTERS[name](rows, value)
    if group := asked.get("group"):  # the groups of a kind and queue are made from its newest records
        rows = rows.filter(pk__in=ids_like(group, asked.get("kind"), asked.get("queue")))
    return rows


def with_answers(rows: Rows) -> Rows:
    """The records with `answer`: the facts of the last attempt, found by its key."""
    last = Attempt.objects.filter(record_id=OuterRef("pk")).order_by("-number").values("facts")[:1]
    found: Rows = rows.annotate(answer=Subquery(last))
    return found


def locked_batches(records: Rows, size: int, ids: Sequence[int] | None = None) -> Iterator[list[int]]:
    """Ids of `records` as of now, ascending, each batch in a separate transaction that ends with the caller's step.

    A batch holds only ids that are still among `records` when it is locked: a record that a claim has taken from
    `ready` in the meantime is not in a batch of ready ones. `ids`, ascending: only those are looked at.
    """
    if ids is None:
        ids = list(records.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), size):
        with transaction.atomic():
            chosen = ids[start : start + size]
            for hold in registry.before_retry:
                hold(chosen)  # before the records: in the order in which everything locks them
            batch = records.filter(pk__in=chosen).order_by("pk").select_for_update()
            yield list(batch.values_list("pk", flat=True))


def _in_status(rows: Rows, names: str | list[str]) -> Rows:
    """The rows in these statuses, by their ids, as long as those are few: the planner would walk through all records in
    the order of the list, in which it hopes to meet them soon. Many are met soon, and `backlog_done` yields ended
    records by their end.
    """
    wanted, ids = in_status(names), few_in_status(names)
    return rows.filter(wanted) if ids is None else rows.filter(wanted, pk__in=ids)


def in_status(names: str | list[str]) -> Q:
    """The condition of records in these statuses, each named separately, so that the partial indexes are used."""
    statuses = _statuses(names)
    wanted = reduce(or_, (Q(status=status) for status in sorted(statuses)))
    return wanted & Q(finished_at__isnull=False) if statuses <= {*FINISHED} else wanted


def few_in_status(names: str | list[str]) -> RawSQL | None:
    """The ids of all records in these statuses, as a value of `pk__in`; None if there are many, as there are of
    succeeded ones.
    """
    is_many = Status.SUCCEEDED in _statuses(names)
    return None if is_many else ids_if_few(BacklogRecord.objects.filter(in_status(names)).order_by())


def _statuses(names: str | list[str]) -> set[Status]:
    return {each for name in ([names] if isinstance(names, str) else names) for each in STATUSES[name]}


MOST_LOOKED_UP = 50_000


def ids_if_few(rows: Rows) -> RawSQL | None:
    """The ids of these rows, as a value of `pk__in`; None if there are more than MOST_LOOKED_UP."""
    ids = list(rows.values_list("pk", flat=True)[: MOST_LOOKED_UP + 1])
    return RawSQL("SELECT unnest(%s::bigint[])", (ids,)) if len(ids) <= MOST_LOOKED_UP else None


LATEST = 100_000
"""Records by their ids, for conditions that no index serves and that look at each record: some tenths of a second."""


def with_error(rows: Rows, text: str) -> Rows:
    """The rows whose last error contains this text: among unfinished, failed and cancelled records, and among the
    latest. A record that succeeded longer ago shows no error.
    """
    return _among_few(rows, Q(last_error__icontains=text))


def with_subject(rows: Rows, subject: str) -> Rows:
    """The rows with this subject: all events and backups of any age, and others where `with_error` looks, too."""
    if (found := of_batch(rows, subject)).exists():
        return found
    return _among_few(rows, Q(subject=subject), Q(kind="backup", finished_at__isnull=False))


def _among_few(rows: Rows, condition: Q, *others: Q) -> Rows:
    """The rows for which `condition` holds among unfinished, failed and cancelled records, the latest and `others`."""
    with_it = BacklogRecord.objects.filter(condition).order_by().values("pk")
    parts = [with_it.filter(each).query.sql_with_params() for each in (*conditions_of_few(), *others)]
    sql = " UNION ".join(sql for sql, _ in parts)
    values = tuple(value for _, each in parts for value in each)
    return rows.filter(pk__in=RawSQL(f"SELECT unnest(ARRAY({sql}))", values))  # noqa: S611 - ours


def conditions_of_few() -> list[Q]:
    """Conditions that indexes serve: of unfinished, failed and cancelled records, and of the latest."""
    ended = (Q(status=status, finished_at__isnull=False) for status in (Status.FAILED, Status.CANCELLED))
    return [*(Q(status=status) for status in UNFINISHED), *ended, Q(pk__gt=_newest() - LATEST)]


def has_earlier_ones() -> bool:
    """True if there are records before the latest."""
    return BacklogRecord.objects.filter(pk__lte=_newest() - LATEST).exists()


def _newest() -> int:
    return BacklogRecord.objects.aggregate(pk=Max("pk"))["pk"] or 0


def _answered(rows: Rows, answer: str) -> Rows:
    """Filter by the answer to the last attempt."""
    if answer != "2xx":
        return _undelivered(rows, answer)
    # as COALESCE, of which the planner expects half of all, which is nearer to all than none
    is_delivered = ExpressionWrapper(Q(answer_code__regex=r"^2\d\d$"), BooleanField())
    return _with_codes(rows).filter(Coalesce(is_delivered, Value(False)))


def _undelivered(rows: Rows, answer: str, names: str | list[str] | None = None, *, are_few: bool = False) -> Rows:
    """The events with this answer. One other than 2xx means not delivered: no delivered record is looked at.

    `names`: those in these statuses. `are_few`: another filter finds few records already.
    """
    statuses = (_statuses(names) if names else {*Status}) - {Status.SUCCEEDED}
    rows = _with_codes(rows).filter(attempt__gt=0, status__in=sorted(statuses))
    if statuses and not are_few:
        rows = rows.filter(_is_tried_event(statuses))
    if answer == "none":
        return rows.filter(Exists(Attempt.objects.filter(record_id=OuterRef("pk"))), answer_code__isnull=True)
    return rows.filter(answer_code__regex=rf"^{answer[0]}\d\d$")


def _with_codes(rows: Rows) -> Rows:
    found: Rows = with_answers(_events(rows)).annotate(answer_code=KeyTextTransform("status", "answer"))
    return found


def _is_tried_event(statuses: set[Status]) -> RawSQL:
    """A condition that finds the tried events in these statuses: an array of ids, by the partial indexes.

    The planner walks through an array in the order of the ids, and ends with the page. Through a set it would not; and
    it would walk through all records, in which it hopes to meet these soon. What failed or was cancelled is read from
    its index alone, and may also be another record.
    """
    ended = (Q(status=each, finished_at__isnull=False) for each in sorted(statuses & {*FINISHED}))
    unfinished = (
        Q(status=each, kind__in=EndpointKind.values, attempt__gt=0) for each in sorted(statuses & {*UNFINISHED})
    )
    parts = [BacklogRecord.objects.filter(each).order_by().values("pk") for each in (*ended, *unfinished)]
    found = [part.query.sql_with_params() for part in parts]
    ids = " UNION ALL ".join(f"({sql})" for sql, _ in found)
    values = tuple(value for _, each in found for value in each)
    is_one = f'"{BacklogRecord._meta.db_table}"."id" = ANY(ARRAY({ids}))'
    return RawSQL(is_one, values, output_field=BooleanField())  # noqa: S611 - ours


def _events(rows: Rows, only: bool = True) -> Rows:
    return rows.filter(kind__in=EndpointKind.values) if only else rows.exclude(kind__in=EndpointKind.values)


def _of_subject(rows: Rows, subject: str) -> Rows:
    """Filter by the index of batches if the subject is an event id, which names schedule and launch time."""
    is_event = of_batch(BacklogRecord.objects.all(), subject).exists()  # which another filter may leave out
    return of_batch(rows, subject) if is_event else rows.filter(subject=subject)


def of_batch(rows: Rows, subject: str) -> Rows:
    """The event with that id, by its schedule and its launch time; none if the subject is not the id of an event, or
    the schedule is gone."""
    if found := EVENT_ID.fullmatch(subject):
        with suppress(ValueError):  # as of the 99th day of a month
            launch = datetime.strptime(found[2], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
            return rows.filter(subject=subject, origin_id=int(found[1]), trigger_at=launch)
    return rows.none()


def _of_paused_queues(rows: Rows, paused: bool) -> Rows:
    names = list(PausedQueue.objects.values_list("name", flat=True))
    return rows.filter(queue__in=names) if paused else rows.exclude(queue__in=names)


def _equal(column: str) -> Callable[[Rows, Any], Rows]:
    return lambda rows, value: rows.filter(**{column: value})


FILTERS: dict[str, Callable[[Rows, Any], Rows]] = {
    "status": _in_status,
    "kind": _equal("kind"),
    "queue": _equal("queue"),
    "subject": _of_subject,
    "error": with_error,
    "group": lambda rows, group: rows.filter(status=Status.FAILED),  # `filtered` knows which of them
    "events": _events,
    "schedule": _equal("origin_id"),
    "schedule_name": _equal("payload__schedule"),  # of a schedule that is gone: no index serves that
    "trigger_at": _equal("trigger_at"),
    "endpoint": _equal("payload__endpoint"),
    "answer": _answered,
    "ended_since": _equal("finished_at__gte"),
    "since": _equal("inserted_at__gte"),
    "paused": _of_paused_queues,
}
