"""Times in which a policy's backups may start, and backups that only start if they fit.

A record's `closes_at` is the instant from which it is no longer started: the close of its window, or, under a policy
that only starts backups that fit, earlier by the duration of its last backup. So neither a claim nor an execution unit
has to consider whether it fits, and the tick that closes windows postpones the records that no longer do.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db.models import F

from external.formatting import several
from jobs import decisions
from sources.models import Assignment, AtClose, Policy
from sources.models.policy import Opening
from sources.planning.names import KIND, assignment_of, subject_of

STARTS_ALL_THE_SAME_AFTER = 3
"""The number of consecutive openings that an assignment is left out of because it does not fit. In the next one it is
started anyway: a backup that never fits would otherwise never be made."""


def must_fit(policy: Policy, assignment: Assignment) -> bool:
    """True if its backup may only start if its last duration lets it end before the window closes."""
    skipped_enough = assignment.skips >= STARTS_ALL_THE_SAME_AFTER
    return policy.only_if_it_fits and bool(assignment.last_backup_for) and not skipped_enough


def stops_at(policy: Policy, assignment: Assignment, now: datetime) -> datetime | None:
    """The instant at which a backup that begins at `now` has to be stopped: at once if the window has closed. None if
    it may finish.

    A backup that is started although it does not fit may finish, else it never would.
    """
    if policy.at_close != AtClose.STOP or assignment.skips >= STARTS_ALL_THE_SAME_AFTER:
        return None
    opens_at, closes_at = policy.opening(now)
    return closes_at if opens_at <= now else now


def next_openings(records: list[tuple[int, str]], now: datetime) -> dict[int, Opening]:
    """The next openings of backup records (id, subject) whose `closes_at` has passed: record id → its new (run_after,
    closes_at).

    Records that would not end before their window closes are put off to the next opening, and each such skip is
    counted. Must be called in a transaction.
    """
    ids = {record_id: assignment_of(subject) for record_id, subject in records}
    assignments = Assignment.objects.select_related("source").in_bulk(set(ids.values()))
    of_them = {assignment.policy_id for assignment in assignments.values()}
    policies = Policy.objects.select_related("schedule").in_bulk(of_them)
    by_policy = {policy.pk: policy.opening(now) for policy in policies.values()}
    openings: dict[int, Opening] = {}
    skipped: list[decisions.DecisionLine] = []
    for record_id, assignment_id in ids.items():
        assignment = assignments.get(assignment_id)
        if assignment and (policy := policies.get(assignment.policy_id)):
            openings[record_id] = _for_assignment(policy, assignment, by_policy[policy.pk], now, skipped)
    _count_skips(skipped, now)
    return openings


def plain_openings(records: list[tuple[int, str]], now: datetime) -> dict[int, Opening]:
    """The same for records that start whenever the window is open, however long they may take."""
    return _openings(records, now, Policy.opening)


def copy_openings(records: list[tuple[int, str]], now: datetime) -> dict[int, Opening]:
    """The same for copies, which have a separate window."""
    return _openings(records, now, Policy.copy_opening)


def _openings(
    records: list[tuple[int, str]], now: datetime, opening: Callable[[Policy, datetime], Opening]
) -> dict[int, Opening]:
    ids = {record_id: assignment_of(subject) for record_id, subject in records}
    policy_of = dict(Assignment.objects.filter(pk__in=set(ids.values())).values_list("pk", "policy"))
    policies = Policy.objects.select_related("schedule").in_bulk(set(policy_of.values()))
    found = {policy.pk: opening(policy, now) for policy in policies.values()}
    return {record_id: found[policy_of[each]] for record_id, each in ids.items() if each in policy_of}


def _for_assignment(
    policy: Policy, assignment: Assignment, found: Opening, now: datetime, skipped: list[decisions.DecisionLine]
) -> Opening:
    opens_at, closes_at = found
    if closes_at is None or not must_fit(policy, assignment):
        return found
    duration = timedelta(seconds=assignment.last_backup_for or 0)
    if opens_at <= now and closes_at - duration <= now:
        assignment.skips += 1
        skipped.append(_line(policy, assignment, closes_at))
        opens_at, closes_at = policy.opening(closes_at)
        if closes_at is None or not must_fit(policy, assignment):
            return opens_at, closes_at
    return opens_at, closes_at - duration


def _count_skips(skipped: list[decisions.DecisionLine], now: datetime) -> None:
    if skipped:
        ids = [assignment_of(line.subject) for line in skipped]
        Assignment.objects.filter(pk__in=ids).update(skips=F("skips") + 1)
        decisions.log_all(skipped, now)


def _line(policy: Policy, assignment: Assignment, closes_at: datetime) -> decisions.DecisionLine:
    return decisions.DecisionLine(
        "left out",
        f"{assignment.source} under {policy}: its last backup took {assignment.last_backup_for:.0f} s and its window "
        f"closes at {closes_at:%H:%M} UTC; it has been put off {several(assignment.skips, 'time')} in a row, "
        f"and starts all the same after {STARTS_ALL_THE_SAME_AFTER}",
        KIND,
        subject_of(assignment.pk),
        {"skips": assignment.skips, "closes_at": closes_at.isoformat()},
    )
