"""Outcomes of copies whose source answers *not for now*: a table is locked, a standby ends long queries.

It is put off without a failure, since such a moment passes by itself. After three times in a row it counts as a
failure, which its retry policy spaces out and users see.
"""

from datetime import timedelta

from jobs.clock import database_clock
from jobs.models import Attempt
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Postponed
from jobs.states import AttemptOutcome, WaitingFor
from sources import planning

TIMES = 3
BEGINNING = "not for now: "


def put_off(record: ClaimedRecord, reason: str, recheck_after: float) -> Outcome:
    """Try again in `recheck_after` seconds, or fail for the third time in a row."""
    text = f"{BEGINNING}{reason}"
    attempts = Attempt.objects.filter(record_id=record.id, queue=planning.BACKUPS).order_by("-number")
    before = list(attempts.values_list("outcome", "error")[: TIMES - 1])
    if len(before) == TIMES - 1 and all(
        outcome == AttemptOutcome.RELEASED and error.startswith(BEGINNING) for outcome, error in before
    ):
        return Failed(f"{text} ({TIMES} times in a row)")
    until = database_clock() + timedelta(seconds=recheck_after)
    return Postponed(until, WaitingFor.RECHECK, f"{text}; tried again at")
