from django.db import migrations

# The protocol and its reasons: jobs/throttles.py. In a function, since the locks are then held for as long as the
# server takes and not for three trips to it; each statement of a volatile function has a snapshot of its own.
# Status: 1 ready, 2 running.
CREATE = """
CREATE FUNCTION jobs_claim_beside_throttles(
    p_queue text, p_limit integer, p_worker bigint, p_token uuid, p_lease double precision, p_feeding text[],
    p_now timestamptz)
RETURNS SETOF jobs_backlogrecord
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    feeds CONSTANT boolean NOT NULL := p_queue = ANY(p_feeding);
    lanes integer[];
    throttles bigint[];
    present timestamptz;
BEGIN
    IF EXISTS (SELECT FROM jobs_pausedqueue WHERE name = p_queue) THEN
        RETURN;
    END IF;

    -- The lanes that hold ready records and have room, without locks: no more than a hint. One probe of
    -- `backlog_claim_order` a lane, however many records wait in it.
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
     WHERE feeds
        OR NOT EXISTS (
           SELECT
             FROM jobs_throttle t
            WHERE t.id = ANY(l.throttle_ids)
              AND t.max_in_flight <= (
                  SELECT count(*)
                    FROM jobs_backlogrecord r
                    JOIN jobs_lane rl ON rl.id = r.lane
                   WHERE r.status = 2 AND r.lane <> 0 AND r.queue <> ALL(p_feeding)
                     AND t.id = ANY(rl.throttle_ids)));

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
        PERFORM FROM jobs_throttle WHERE id = ANY(throttles) ORDER BY id FOR UPDATE;
        -- The locks may have been waited for.
        IF EXISTS (SELECT FROM jobs_pausedqueue WHERE name = p_queue) THEN
            RETURN;
        END IF;
    END IF;

    -- A statement of its own after the locks: its snapshot shows what their last holder took.
    present := COALESCE(p_now, clock_timestamp());
    RETURN QUERY
    WITH in_flight AS (
        SELECT b.lane, count(*) AS count
          FROM jobs_backlogrecord b
         WHERE b.status = 2 AND b.lane <> 0 AND b.queue <> ALL(p_feeding)
         GROUP BY b.lane
    ), throttle AS (
        SELECT t.id,
               CASE WHEN feeds THEN p_limit
                    ELSE t.max_in_flight - (
                         SELECT COALESCE(sum(f.count), 0)
                           FROM in_flight f
                           JOIN jobs_lane l ON l.id = f.lane
                          WHERE t.id = ANY(l.throttle_ids))
               END AS room
          FROM jobs_throttle t
         WHERE t.id = ANY(throttles)
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
         WHERE ranked.rank > ranked.room
    )
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
    RETURNING jobs_backlogrecord.*;
END
$$
"""

DROP = "DROP FUNCTION jobs_claim_beside_throttles(text, integer, bigint, uuid, double precision, text[], timestamptz)"


class Migration(migrations.Migration):
    """Claims from a queue in which throttled records are ready: the caps are held inside the database."""

    dependencies = [("jobs", "0004_cancel_pause_and_lanes_in_flight")]

    operations = [migrations.RunSQL(CREATE, DROP)]
