"""The status of sources and assignments as a column, counted, and with its reason: one definition for lists, filters,
commands, the API, alerts and metrics.

conditions.py     the conditions of an assignment in each status
of_all.py         all sources at once: counted, filtered
ordering.py       pages of sources, the worst first
common_errors.py  sources that fail by the same error

A source's status is the worst of its assignments under policies that are enabled. Problems stay in sight: a source that
fails is failing while its next attempt runs or waits.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any

from django.db.models import Case, Exists, F, IntegerField, OuterRef, Q, QuerySet, Value, When

from fleet import assignment_findings, reasons
from fleet.status import of_all, ordering
from fleet.status.conditions import conditions, enabled
from jobs import states
from jobs.conf import PROGRAM
from jobs.models import BacklogRecord
from operations.backlog.selection import ids_if_few
from operations.backlog.surroundings import Surroundings
from schedules.models import Schedule
from sources.domain.status import BY_RANK, NEEDS_OPERATOR, NOT_COUNTED, PRECEDENCE, ProtectionStatus
from sources.models import Assignment, Source
from sources.planning.names import KIND, REMOVAL, subject_of

FIRST_STEPS = f"Add a repository, a policy and a source in the admin, or `{PROGRAM} apply FILE`"


class StatusField(IntegerField):  # type: ignore[type-arg]
    """A status that the database sorts by rank, the worst first, and that is read and filtered by its name."""

    def get_prep_value(self, value: Any) -> int | None:
        return ProtectionStatus(value).rank if isinstance(value, str) else value

    def from_db_value(self, value: int | None, expression: Any, connection: Any) -> ProtectionStatus | None:
        return None if value is None else BY_RANK[value]


def with_status(sources: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Annotate `status`, which sorts worst first; `status_rank` is its name for ordering by it."""
    return _annotated(sources, _of_sources(now))


def worst_first(
    sources: QuerySet[Any], now: datetime, most: int | None = None, only: ProtectionStatus | None = None
) -> list[Any]:
    """The first sources, or the first of those in the status `only`, each with its `status`: sorted by
    status, then by name.
    """
    if only:
        ids = sources.filter(of_all.in_status([only], now)).order_by("name").values_list("pk", flat=True)[:most]
        return rows_of(dict.fromkeys(ids, only), sources)
    few = not sources.order_by()[ordering.FEW : ordering.FEW + 1].exists()
    return rows_of(ordering.worst_first(sources, now, most=most, few=few), sources)


def rows_of(status: Mapping[int, ProtectionStatus], sources: QuerySet[Any]) -> list[Any]:
    """Sources of known status, in that order, without those deleted since."""
    rows = sources.in_bulk(list(status))
    for pk, each in rows.items():
        each.status = status[pk]
    return [rows[pk] for pk in status if pk in rows]


def _of_sources(now: datetime) -> dict[ProtectionStatus, Any]:
    active = Assignment.objects.filter(source=OuterRef("pk"), policy__in=enabled())
    # one set for each of several conditions: the planner makes a table of each, but walks an index for an OR
    worst = {
        status: reduce(or_, (Exists(active.filter(each)) for each in found))
        for status, found in conditions(now).items()
    }
    return {
        ProtectionStatus.RETIRED: Q(retired_at__isnull=False),
        ProtectionStatus.PAUSED: Q(paused_at__isnull=False),
        ProtectionStatus.UNPROTECTED: ~Exists(active),
    } | {status: worst[status] for status in PRECEDENCE[:-1]}


def with_assignment_status(assignments: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """The same for assignments."""
    return _with_assignment_status(assignments, conditions(now))


SET_ASIDE = {
    ProtectionStatus.RETIRED: Q(source__retired_at__isnull=False),
    ProtectionStatus.PAUSED: Q(source__paused_at__isnull=False),
    ProtectionStatus.UNPROTECTED: Q(policy__schedule__enabled=False),
}
"""The conditions of assignments that an operator has set aside, the first one first."""


BY_RECORDS = {ProtectionStatus.RUNNING, ProtectionStatus.ABSENT, ProtectionStatus.WAITING}
"""Statuses for which the planner, not knowing how many records there are, expects a single assignment, and would read
all policies for each."""


def assignments_in(statuses: Collection[ProtectionStatus], now: datetime) -> Q:
    """The condition of assignments that are in one of these statuses now. All are examined together, once for the count
    and the page of a list: finding each status separately takes four times as long.
    """
    found = conditions(now, at_once=True)
    met = found | {status: (condition,) for status, condition in SET_ASIDE.items()}
    if set(statuses) == {ProtectionStatus.PROTECTED}:  # those that meet no condition; most do not
        return ~_meet_any(met)
    rows = _with_assignment_status(Assignment.objects.order_by(), found)
    if set(statuses) <= set(met):  # a condition that others may meet, too, and that leaves few to look at
        meets = reduce(or_, (each for status in statuses for each in met[status]))
        few = ids_if_few(Assignment.objects.filter(meets).order_by()) if set(statuses) <= BY_RECORDS else None
        rows = rows.filter(meets if few is None else Q(pk__in=few))
    sql, values = rows.filter(status__in=statuses).values("pk").query.sql_with_params()
    return Q(pk__in=of_all.ids_of(sql, *values))


def _meet_any(found: Mapping[ProtectionStatus, tuple[Any, ...]]) -> Q:
    """The condition of assignments that meet any of these now. Each has a separate query, served by its own index."""
    rows = [Assignment.objects.filter(each).order_by().values("pk") for each in chain(*found.values())]
    asked = [each.query.sql_with_params() for each in rows]
    values = chain(*(values for _, values in asked))
    return Q(pk__in=of_all.ids_of(" UNION ALL ".join(sql for sql, _ in asked), *values))


def _with_assignment_status(
    assignments: QuerySet[Any], found: Mapping[ProtectionStatus, tuple[Any, ...]]
) -> QuerySet[Any]:
    return _annotated(assignments, SET_ASIDE | {status: reduce(or_, found[status]) for status in PRECEDENCE[:-1]})


def _annotated(rows: QuerySet[Any], found: dict[ProtectionStatus, Any]) -> QuerySet[Any]:
    whens = [When(condition, then=Value(status.rank)) for status, condition in found.items()]
    column = Case(*whens, default=Value(ProtectionStatus.PROTECTED.rank), output_field=StatusField())
    annotated: QuerySet[Any] = rows.annotate(status=column).alias(status_rank=F("status"))
    return annotated


@dataclass(frozen=True)
class FleetSummary:
    """The overview for an operator. `worst`: ids of sources that need attention → their status, the worst first, as
    many as were asked for.
    """

    by_status: dict[ProtectionStatus, int]
    dead_letters: int
    worst: Mapping[int, ProtectionStatus] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of sources that are not retired."""
        return sum(self.by_status.values()) - self.by_status[ProtectionStatus.RETIRED]

    @property
    def in_need(self) -> int:
        return sum(self.by_status[status] for status in NEEDS_OPERATOR)

    @property
    def needs(self) -> str:
        """The sources that need attention, such as `3 failing, 2 never`."""
        found = {status: number for status, number in self.by_status.items() if number and status in NEEDS_OPERATOR}
        return ", ".join(f"{number:,} {status}" for status, number in found.items())

    @property
    def protected(self) -> int:
        """The number of sources with a recent enough backup, whatever they wait for now."""
        return sum(number for status, number in self.by_status.items() if status not in NEEDS_OPERATOR | NOT_COUNTED)

    @property
    def is_well(self) -> bool:
        return bool(self.protected) and not self.in_need and not self.dead_letters

    @property
    def sentence(self) -> str:
        if not self.total:
            retired = self.by_status[ProtectionStatus.RETIRED]
            return f"Nothing is protected{': every source is retired' if retired else ' yet: there are no sources'}"
        parts = [f"{self.protected:,} of {self.total:,} protected"]
        parts += [f"{self.in_need:,} need{'s' if self.in_need == 1 else ''} you"] if self.in_need else []
        parts += (
            [f"{self.by_status[ProtectionStatus.PAUSED]:,} paused"] if self.by_status[ProtectionStatus.PAUSED] else []
        )
        letters = "dead letter" if self.dead_letters == 1 else "dead letters"
        parts += [f"{self.dead_letters:,} {letters}"] if self.dead_letters else []
        return " · ".join(parts)


def summary(
    now: datetime,
    most: int | None = 0,
    *,
    need_alone: bool = False,
    by_status: dict[ProtectionStatus, int] | None = None,
) -> FleetSummary:
    """Count with two statements. `most`: the number of sources in need of attention to name; None for all.
    `need_alone`: as for `of_all.look`, for callers that do not show the statuses of protected sources. `by_status`: the
    numbers of sources, if they are known already; then none are named.
    """
    dead_letters = BacklogRecord.objects.filter(status=states.Status.FAILED).count()
    return FleetSummary(by_status, dead_letters) if by_status else _counted(now, dead_letters, most, need_alone)


def _counted(now: datetime, dead_letters: int, most: int | None = 0, need_alone: bool = False) -> FleetSummary:
    by_status, worst = of_all.look(now, NEEDS_OPERATOR, most, need_alone=need_alone)
    return FleetSummary(by_status, dead_letters, worst)


def verdict(now: datetime, *, need_alone: bool = False) -> tuple[FleetSummary, str, str]:
    """The numbers of sources; why they are not all protected, and advice, neither with a full stop. Both are empty if
    they are protected, or if there is nothing to back up, since schedules deliver events alone. `need_alone`: as for
    `summary`.
    """
    found = _counted(now, 0, need_alone=need_alone)
    if not found.total and Schedule.objects.filter(policy=None).exists():
        return found, "", ""
    if not found.total:
        return found, found.sentence, FIRST_STEPS
    if found.in_need:
        return found, f"{found.sentence}: {found.needs}", f"`{PROGRAM} status` lists them with the reasons"
    if not found.protected:
        return (
            found,
            f"{found.sentence}: nothing is backed up",
            f"`{PROGRAM} sources resume NAME` backs a source up again",
        )
    return found, "", ""


def in_need(now: datetime) -> list[str]:
    """The same as sentences; an empty list if all is well."""
    _, wrong, do = verdict(now, need_alone=True)
    return [f"{wrong}. {do}."] if wrong else []


def reasons_of(sources: Collection[Source], now: datetime, around: Surroundings | None = None) -> dict[int, str]:
    """Source → a sentence with the reasons why it is not protected or does not run now, and when it is tried next.
    `around`: the surroundings of their records, if they were looked up already.

    A number of statements that does not grow with the sources.
    """
    related = Assignment.objects.select_related(
        "source", "policy__schedule", "policy__repository", "policy__copy_to", "check_round"
    )
    found = list(with_assignment_status(related.filter(source__in=sources), now).order_by("policy__schedule__name"))
    records = _records_of(found, around.records if around else None) | _removals_of(sources)
    around = around or Surroundings(list(records.values()), now)
    wrong = assignment_findings.of([each.pk for each in found], now)
    of_source: dict[int, list[Any]] = {source.pk: [] for source in sources}
    for assignment in found:
        of_source[assignment.source_id].append(assignment)
    return {source.pk: reasons.sentence(source, of_source[source.pk], records, around, wrong) for source in sources}


def _removals_of(sources: Collection[Source]) -> dict[str, BacklogRecord]:
    """Subject → the record that deletes a source, which is thereby retired."""
    subjects = [f"source:{each.pk}" for each in sources if each.retired_at]
    found = BacklogRecord.objects.unfinished().filter(kind=REMOVAL, subject__in=subjects) if subjects else ()
    return {each.subject: each for each in found}


def _records_of(
    assignments: Collection[Any], known: Collection[BacklogRecord] | None = None
) -> dict[str, BacklogRecord]:
    """Subject → its unfinished record, or, if it fails and has none, the dead letter that it left. `known`: all
    unfinished ones, and others.
    """
    subjects = {subject_of(assignment.pk) for assignment in assignments}
    of_backups = BacklogRecord.objects.filter(kind=KIND).select_related("retry_policy").defer("payload")
    if known is None:
        known = of_backups.unfinished().filter(subject__in=subjects)
    found = {each.subject: each for each in known if each.status in states.UNFINISHED}
    failing = {subject_of(each.pk) for each in assignments if each.failures} - set(found)
    gave_up = of_backups.filter(status=states.Status.FAILED, finished_at__isnull=False, subject__in=failing)
    dead = gave_up.order_by("finished_at") if failing else []
    return found | {each.subject: each for each in dead}


MOST_CALLED = 100


def subjects_called(text: str) -> list[str]:
    """The subjects of the first assignments whose source has each word of a text in its name."""
    words = (Q(source__name__icontains=word) for word in text.split())
    found = Assignment.objects.filter(*words).order_by("pk").values_list("pk", flat=True)[:MOST_CALLED]
    return [subject_of(pk) for pk in found]
