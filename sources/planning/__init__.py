"""What is due, put on the backlog; and what people and agents ask for about it.

emission     due assignments → records, one statement for any number of policies
openings     when their windows are open, and what only starts if it fits
replanning   after an edit of a policy
requests     back up now, snooze, pause, resume
arrivals     a source checks in
"""

from sources.planning.arrivals import check_in, has_checked_in_since
from sources.planning.emission import catch_up, emit_batches, emit_due
from sources.planning.lanes import limit_seeding
from sources.planning.names import (
    ARRIVALS,
    AVAILABILITY,
    BACK_UP_NOW_PRIORITY,
    BACKUPS,
    CHECK,
    COPY,
    DRILL,
    KIND,
    OF_ASSIGNMENTS,
    REMOVAL,
    RETENTION,
    subject_of,
    subject_of_policy,
    subject_of_source,
)
from sources.planning.openings import copy_openings, next_openings, plain_openings, stops_at
from sources.planning.replanning import replan
from sources.planning.requests import (
    back_up_now,
    cancel,
    end_waits_for_snooze,
    keep_promise,
    pause,
    resume,
    snooze,
    unsnooze,
)
from sources.planning.standings import Standing, standings_of

__all__ = [
    "ARRIVALS",
    "AVAILABILITY",
    "BACKUPS",
    "BACK_UP_NOW_PRIORITY",
    "CHECK",
    "COPY",
    "DRILL",
    "KIND",
    "OF_ASSIGNMENTS",
    "REMOVAL",
    "RETENTION",
    "Standing",
    "back_up_now",
    "cancel",
    "catch_up",
    "check_in",
    "copy_openings",
    "emit_batches",
    "emit_due",
    "end_waits_for_snooze",
    "has_checked_in_since",
    "keep_promise",
    "limit_seeding",
    "next_openings",
    "pause",
    "plain_openings",
    "replan",
    "resume",
    "snooze",
    "standings_of",
    "stops_at",
    "subject_of",
    "subject_of_policy",
    "subject_of_source",
    "unsnooze",
]
