from importlib import import_module

from django.db import migrations

# The protocol and its reasons: jobs/throttles.py. Status: 1 ready, 2 running.
before = import_module("jobs.migrations.0008_ask_ahead_within_throttles")

# What lies in a bucket at an instant; NULL without a rate. A clock that was set back adds nothing.
TOKENS = """
CREATE FUNCTION jobs_tokens(
    p_tokens double precision, p_tokens_at timestamptz, p_rate double precision, p_burst integer,
    p_present timestamptz)
RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT CASE WHEN p_rate IS NOT NULL THEN
       LEAST(COALESCE(p_burst, GREATEST(1, p_rate)),
             p_tokens + p_rate * GREATEST(0, extract(epoch FROM p_present - p_tokens_at)::double precision))
       END
$$
"""
DROP_TOKENS = "DROP FUNCTION jobs_tokens(double precision, timestamptz, double precision, integer, timestamptz)"

# A new bucket is full; one that gets its first rate by an edit is empty. An edit by whomever counts what flowed in by
# the old rate and writes no tokens of its own: those that its program read are old. It wakes the workers. A claim
# updates no column that is named here. NaN and infinity are above a million; they would make every claim fail.
EDITED = """
CREATE FUNCTION jobs_throttle_edited() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    present CONSTANT timestamptz := clock_timestamp();
    kept double precision := 'infinity';
BEGIN
    IF NEW.rate > 1000000 THEN
        RAISE check_violation USING MESSAGE = 'the rate of a throttle is a number up to 1000000, not ' || NEW.rate;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        kept := COALESCE(jobs_tokens(OLD.tokens, OLD.tokens_at, OLD.rate, OLD.burst, present), 0);
        IF (NEW.max_in_flight, NEW.rate, NEW.burst) IS DISTINCT FROM (OLD.max_in_flight, OLD.rate, OLD.burst) THEN
            PERFORM pg_notify('jobs_ready', '*');
        END IF;
    END IF;
    NEW.tokens := COALESCE(jobs_tokens(kept, present, NEW.rate, NEW.burst, present), 0);
    NEW.tokens_at := present;
    RETURN NEW;
END
$$;
CREATE TRIGGER throttle_edited BEFORE INSERT OR UPDATE OF name, max_in_flight, rate, burst ON jobs_throttle
   FOR EACH ROW EXECUTE FUNCTION jobs_throttle_edited()
"""
DROP_EDITED = "DROP TRIGGER throttle_edited ON jobs_throttle; DROP FUNCTION jobs_throttle_edited()"

# What every claim beside throttles looks at, and what it takes.
FOUND = """
    WITH in_flight AS (
        SELECT b.lane, count(*) AS count
          FROM jobs_backlogrecord b
         WHERE b.status = 2 AND b.lane <> 0 AND b.queue <> ALL(p_feeding)
         GROUP BY b.lane
    ), bucket AS (
        SELECT t.id, t.max_in_flight, t.rate, jobs_tokens(t.tokens, t.tokens_at, t.rate, t.burst, present) AS tokens
          FROM jobs_throttle t
         WHERE t.id = ANY(throttles)
    ), throttle AS (
        SELECT b.id, b.rate, b.tokens,
               LEAST(b.max_in_flight + CASE WHEN feeds THEN (b.max_in_flight + 1) / 2 ELSE 0 END - (
                     SELECT COALESCE(sum(f.count), 0)
                       FROM in_flight f
                       JOIN jobs_lane l ON l.id = f.lane
                      WHERE b.id = ANY(l.throttle_ids)),
                     floor(b.tokens + CASE WHEN feeds THEN ahead * b.rate ELSE 0 END)::bigint)
               - CASE WHEN feeds THEN (
                      SELECT COALESCE(sum(ready.count), 0)
                        FROM jobs_lane al
                       CROSS JOIN LATERAL (
                             SELECT count(*) AS count
                               FROM jobs_backlogrecord a
                              WHERE a.status = 1 AND a.queue = p_feeds AND a.lane = al.id) AS ready
                       WHERE b.id = ANY(al.throttle_ids))
                      ELSE 0 END AS room
          FROM bucket b
    ), open_lane AS (
        SELECT 0 AS id, '{}'::bigint[] AS throttle_ids, p_limit::numeric AS room
     UNION ALL
        SELECT l.id, l.throttle_ids,
               (SELECT LEAST(min(t.room), p_limit) FROM throttle t WHERE t.id = ANY(l.throttle_ids))
          FROM jobs_lane l
         WHERE l.id = ANY(lanes)
    ), head AS MATERIALIZED (
        SELECT h.*, o.throttle_ids
          FROM open_lane o
         CROSS JOIN LATERAL (
               SELECT b.ctid AS place, b.id, b.priority, b.rank_day, b.tried_at, b.expected_seconds
                 FROM jobs_backlogrecord b
                WHERE b.status = 1 AND b.queue = p_queue AND b.lane = o.id
                  AND (b.closes_at IS NULL OR b.closes_at > present)
                ORDER BY b.priority DESC, b.rank_day ASC NULLS FIRST, b.tried_at ASC NULLS FIRST,
                         b.expected_seconds ASC NULLS FIRST, b.id
                LIMIT GREATEST(o.room, 0)
                  FOR UPDATE SKIP LOCKED) AS h
    ), too_many AS (
        SELECT ranked.id
          FROM (SELECT head.id, throttle.room,
                       row_number() OVER (
                           PARTITION BY throttle.id
                           ORDER BY head.priority DESC, head.rank_day ASC NULLS FIRST, head.tried_at ASC NULLS FIRST,
                                    head.expected_seconds ASC NULLS FIRST, head.id) AS rank
                  FROM head
                  JOIN throttle ON throttle.id = ANY(head.throttle_ids)) AS ranked
         WHERE ranked.rank > ranked.room"""
TAKE = """
    UPDATE jobs_backlogrecord
       SET status = 2, attempt = attempt + 1, started_at = present, leased_by_id = p_worker,
           lease_token = p_token, lease_expires_at = present + p_lease * interval '1 second'
     WHERE status = 1
       AND ctid = ANY(ARRAY(
           SELECT head.place
             FROM head
            WHERE head.id NOT IN (SELECT too_many.id FROM too_many)
            ORDER BY head.priority DESC, head.rank_day ASC NULLS FIRST, head.tried_at ASC NULLS FIRST,
                     head.expected_seconds ASC NULLS FIRST, head.id
            LIMIT p_limit))
    RETURNING jobs_backlogrecord.*"""

CLAIM = f"""
CREATE FUNCTION jobs_claim_beside_throttles(
    p_queue text, p_limit integer, p_worker bigint, p_token uuid, p_lease double precision, p_feeding text[],
    p_feeds text, p_now timestamptz)
RETURNS SETOF jobs_backlogrecord
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    feeds CONSTANT boolean NOT NULL := p_queue = ANY(p_feeding);
    ahead CONSTANT double precision NOT NULL := 30;
    lanes integer[];
    throttles bigint[];
    rated boolean := FALSE;
    present timestamptz;
BEGIN
    IF EXISTS (SELECT FROM jobs_pausedqueue WHERE name = p_queue) THEN
        RETURN;
    END IF;

    -- The lanes that hold ready records and have room, without locks: no more than a hint. One probe of
    -- `backlog_claim_order` a lane, however many records wait in it. A bucket dated later than the present has seen the
    -- clock set back: it is looked at under the lock, which dates it anew.
    present := COALESCE(p_now, clock_timestamp());
    SELECT array_agg(DISTINCT l.id), array_agg(DISTINCT named.id)
      INTO lanes, throttles
      FROM jobs_lane l
     CROSS JOIN LATERAL (
           SELECT
             FROM jobs_backlogrecord b
            WHERE b.status = 1 AND b.queue = p_queue AND b.lane = l.id
            ORDER BY b.priority DESC, b.rank_day ASC NULLS FIRST, b.tried_at ASC NULLS FIRST,
                     b.expected_seconds ASC NULLS FIRST, b.id
            LIMIT 1) AS first
     CROSS JOIN LATERAL unnest(l.throttle_ids) AS named(id)
     WHERE NOT EXISTS (
           SELECT
             FROM jobs_throttle t
            WHERE t.id = ANY(l.throttle_ids)
              AND LEAST(t.max_in_flight + CASE WHEN feeds THEN (t.max_in_flight + 1) / 2 ELSE 0 END - (
                        SELECT count(*)
                          FROM jobs_backlogrecord r
                          JOIN jobs_lane rl ON rl.id = r.lane
                         WHERE r.status = 2 AND r.lane <> 0 AND r.queue <> ALL(p_feeding)
                           AND t.id = ANY(rl.throttle_ids)),
                        CASE WHEN feeds OR t.tokens_at <= present THEN
                        floor(jobs_tokens(t.tokens, t.tokens_at, t.rate, t.burst, present)
                              + CASE WHEN feeds THEN ahead * t.rate ELSE 0 END)::bigint END)
                  <= (SELECT COALESCE(sum(ready.count), 0)
                        FROM jobs_lane al
                       CROSS JOIN LATERAL (
                             SELECT count(*) AS count
                               FROM jobs_backlogrecord a
                              WHERE a.status = 1 AND a.queue = p_feeds AND a.lane = al.id) AS ready
                       WHERE feeds AND t.id = ANY(al.throttle_ids)));

    IF lanes IS NULL THEN
        present := COALESCE(p_now, clock_timestamp());
        RETURN QUERY
        UPDATE jobs_backlogrecord
           SET status = 2, attempt = attempt + 1, started_at = present, leased_by_id = p_worker,
               lease_token = p_token, lease_expires_at = present + p_lease * interval '1 second'
         WHERE status = 1
           AND ctid = ANY(ARRAY(
               SELECT b.ctid
                 FROM jobs_backlogrecord b
                WHERE b.status = 1 AND b.queue = p_queue AND b.lane = 0
                  AND (b.closes_at IS NULL OR b.closes_at > present)
                ORDER BY b.priority DESC, b.rank_day ASC NULLS FIRST, b.tried_at ASC NULLS FIRST,
                         b.expected_seconds ASC NULLS FIRST, b.id
                LIMIT p_limit
                  FOR UPDATE SKIP LOCKED))
        RETURNING jobs_backlogrecord.*;
        RETURN;
    END IF;

    IF NOT feeds THEN
        SELECT bool_or(locked.rate IS NOT NULL)
          INTO rated
          FROM (SELECT rate FROM jobs_throttle WHERE id = ANY(throttles) ORDER BY id FOR UPDATE) AS locked;
        -- The locks may have been waited for.
        IF EXISTS (SELECT FROM jobs_pausedqueue WHERE name = p_queue) THEN
            RETURN;
        END IF;
    END IF;

    -- A statement of its own after the locks: its snapshot shows what their last holder took, in flight and of tokens.
    present := COALESCE(p_now, clock_timestamp());
    IF rated THEN
        RETURN QUERY{FOUND}
    ), claimed AS ({TAKE}
    ), paid AS (
        UPDATE jobs_throttle
           SET tokens_at = present,
               tokens = throttle.tokens - (
                        SELECT count(*)
                          FROM claimed c
                          JOIN jobs_lane l ON l.id = c.lane
                         WHERE throttle.id = ANY(l.throttle_ids))
          FROM throttle
         WHERE jobs_throttle.id = throttle.id AND throttle.rate IS NOT NULL
    )
    SELECT * FROM claimed;
    ELSE
        RETURN QUERY{FOUND}
    ){TAKE};
    END IF;
END
$$
"""


class Migration(migrations.Migration):
    """A throttle's rate is held where its cap is: in the claim."""

    dependencies = [("jobs", "0012_facts_of_attempts")]

    operations = [
        migrations.RunSQL(TOKENS, DROP_TOKENS),
        migrations.RunSQL(EDITED, DROP_EDITED),
        migrations.RunSQL(before.DROP, before.CREATE),
        migrations.RunSQL(CLAIM, before.DROP),
    ]
