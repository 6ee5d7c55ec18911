"""Which records a command is about: ids, or what filters say."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from jobs import conf
from jobs.handlers import registry
from jobs.models import BacklogRecord
from jobs.models.record import BacklogRecordQuerySet
from jobs.states import Status


@dataclass(frozen=True)
class Filters:
    """What records have to be like; None and empty: no matter. `error`: a part of the last error, in any case."""

    kind: str | None = None
    queue: str | None = None
    statuses: Sequence[Status] = ()
    subject: str | None = None
    error: str | None = None

    @property
    def any(self) -> bool:
        return bool(self.statuses) or any((self.kind, self.queue, self.subject, self.error))

    def check(self) -> None:
        """Raises: ValueError for a kind or queue that neither settings nor any record knows; for what is no text."""
        for name in ("kind", "queue", "subject", "error"):
            if not _is_text(getattr(self, name) or ""):
                raise ValueError(f"{name}: that is no text in UTF-8; type it again")
        known_kinds, known_queues = sorted(registry.kinds), list(conf.queue_rules())
        if self.kind and self.kind not in known_kinds and not _exists(kind=self.kind):
            raise ValueError(f"no kind {self.kind!r}; there are {', '.join(known_kinds)}")
        if self.queue and self.queue not in known_queues and not _exists(queue=self.queue):
            raise ValueError(f"no queue {self.queue!r}; there are {', '.join(known_queues)}")

    def records(self, statuses: Collection[Status] = tuple(Status)) -> BacklogRecordQuerySet:
        """The records that are like that; without a status of their own, those in `statuses`."""
        found = BacklogRecord.objects.filter(status__in=self.statuses or statuses)
        exact = {"kind": self.kind, "queue": self.queue, "subject": self.subject}
        found = found.filter(**{name: value for name, value in exact.items() if value})
        return found.filter(last_error__icontains=self.error) if self.error else found


def _is_text(said: str) -> bool:
    """Whether it can be looked for: a terminal may hand on half a character, and PostgreSQL knows no NUL."""
    try:
        said.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in said


def _exists(**facts: str) -> bool:
    return BacklogRecord.objects.filter(**facts).exists()


def locked_batches(
    records: QuerySet[BacklogRecord], size: int, ids: Sequence[int] | None = None
) -> Iterator[list[int]]:
    """Ids of `records` as of now, ascending, each batch in a transaction of its own that ends with the caller's step.

    A batch holds only what is still among `records` when it is locked: what a claim has taken from `ready` meanwhile
    is not in a batch of ready ones. `ids`, ascending: those alone are looked at.
    """
    if ids is None:
        ids = list(records.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), size):
        with transaction.atomic():
            chosen = ids[start : start + size]
            for each in registry.batches:
                each.hold(chosen)  # before the records: in the order in which everybody locks them
            batch = records.filter(pk__in=chosen).order_by("pk").select_for_update()
            yield list(batch.values_list("pk", flat=True))
