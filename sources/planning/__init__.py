"""Due work, put on the backlog; and the related requests of users, operators and agents.

emission       due assignments → records, one statement for any number of policies
openings       the openings of their windows, and backups that only start if they fit
replanning     after an edit of a policy
requests       back up now, pause, resume
retirement     a source retires, or returns
arrivals       a source checks in
standings      the facts about a source's assignments that its check-in needs
previews       the next periods of a policy
clock_repairs  ends waits that a wrong clock has made too long
held_back      releases an assignment whose last backup looked wrong
names          kinds, queues and subjects of the records
"""

from sources.planning.arrivals import check_in, checked_in_among, has_checked_in_since
from sources.planning.emission import catch_up, emit_batches, emit_due
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
    assignment_in,
    subject_of,
    subject_of_policy,
    subject_of_source,
)
from sources.planning.openings import copy_openings, plain_openings, stops_at
from sources.planning.replanning import limit_seeding, reopen, replan
from sources.planning.requests import (
    back_up_now,
    cancel,
    keep_promise,
    pause,
    promised_among,
    resume,
)
from sources.planning.standings import Standing, standings_of
