"""The statements of breakers (`jobs/breakers/`) about the records that wait for one, all served by `backlog_held`.

Everything but a wait for a breaker is left as it is, the window included: a tick closes that right after.
"""

from jobs.states import Status, WaitingFor

WAITS = f"status = {Status.WAITING} AND waiting_for = {WaitingFor.BREAKER} AND breaker_id = %(breaker)s::bigint"
NOW = "%(now)s::timestamptz"

LET_THROUGH = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.READY}, waiting_for = NULL, breaker_id = NULL, run_after = {NOW}
 WHERE id = ANY(ARRAY(
       SELECT id
         FROM jobs_backlogrecord
        WHERE {WAITS}
          {{condition}}
        ORDER BY {{order}}
        LIMIT %(limit)s::int
          FOR UPDATE SKIP LOCKED))
RETURNING id, queue
"""

CLAIM_ORDER = """priority DESC, rank_day ASC NULLS FIRST, tried_at ASC NULLS FIRST,
                 expected_seconds ASC NULLS FIRST, id"""

OPEN_WINDOW = f"AND (closes_at IS NULL OR closes_at > {NOW})"
UNTRIED = "AND (tried_at IS NULL OR tried_at < %(opened_at)s::timestamptz)"

# The index yields the order. Passed over: what was tried since the opening, some dozens, and closed windows.
FIRST_UNTRIED = LET_THROUGH.format(condition=f"{OPEN_WINDOW} {UNTRIED}", order=CLAIM_ORDER)

# Sorted, but used only when all that wait have been tried since the opening, so they are few.
TRIED_LONGEST_AGO = LET_THROUGH.format(condition=OPEN_WINDOW, order="tried_at, id")

WHATEVER_WAITS = LET_THROUGH.format(condition="", order=CLAIM_ORDER)

HELD_BY_IT = f"SELECT count(*) FROM jobs_backlogrecord WHERE {WAITS}"

# What it guarded may be gone for good, as the host of an event that named a URL. A row that a settle holds is passed.
FORGET = f"""
DELETE FROM jobs_breaker
 WHERE id = ANY(ARRAY(
       SELECT id
         FROM jobs_breaker AS old
        WHERE last_failure_at < %(before)s::timestamptz
          AND NOT EXISTS (
              SELECT
                FROM jobs_backlogrecord
               WHERE status = {Status.WAITING} AND waiting_for = {WaitingFor.BREAKER} AND breaker_id = old.id)
        ORDER BY id
        LIMIT %(limit)s
          FOR UPDATE SKIP LOCKED))
"""
