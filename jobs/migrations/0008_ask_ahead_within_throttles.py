from importlib import import_module

from django.db import migrations

# A queue that feeds another used to be claimed from whatever the throttles said. Now a lane is passed by once it has as
# many records at work or ready for it as its throttles let through, and half as many again: who waits behind a full
# throttle need not be asked yet. `p_feeds` is the queue that `p_queue` feeds, or NULL. Status: 1 ready, 2 running.
before = import_module("jobs.migrations.0005_claim_beside_throttles")

SIGNATURE = "p_feeding text[],\n    p_now timestamptz)"
NEW_SIGNATURE = "p_feeding text[],\n    p_feeds text, p_now timestamptz)"

ROOM = """     WHERE feeds
        OR NOT EXISTS (
           SELECT
             FROM jobs_throttle t
            WHERE t.id = ANY(l.throttle_ids)
              AND t.max_in_flight <= ("""
NEW_ROOM = """     WHERE NOT EXISTS (
           SELECT
             FROM jobs_throttle t
            WHERE t.id = ANY(l.throttle_ids)
              AND t.max_in_flight + CASE WHEN feeds THEN (t.max_in_flight + 1) / 2 ELSE 0 END <= (
                  SELECT COALESCE(sum(ready.count), 0)
                    FROM jobs_lane al
                   CROSS JOIN LATERAL (
                         SELECT count(*) AS count
                           FROM jobs_backlogrecord a
                          WHERE a.status = 1 AND a.queue = p_feeds AND a.lane = al.id) AS ready
                   WHERE feeds AND t.id = ANY(al.throttle_ids)) + ("""

LEFT = """               CASE WHEN feeds THEN p_limit
                    ELSE t.max_in_flight - (
                         SELECT COALESCE(sum(f.count), 0)
                           FROM in_flight f
                           JOIN jobs_lane l ON l.id = f.lane
                          WHERE t.id = ANY(l.throttle_ids))
               END AS room"""
NEW_LEFT = """               t.max_in_flight - (
                    SELECT COALESCE(sum(f.count), 0)
                      FROM in_flight f
                      JOIN jobs_lane l ON l.id = f.lane
                     WHERE t.id = ANY(l.throttle_ids))
               + CASE WHEN feeds THEN (t.max_in_flight + 1) / 2 - (
                      SELECT COALESCE(sum(ready.count), 0)
                        FROM jobs_lane al
                       CROSS JOIN LATERAL (
                             SELECT count(*) AS count
                               FROM jobs_backlogrecord a
                              WHERE a.status = 1 AND a.queue = p_feeds AND a.lane = al.id) AS ready
                       WHERE t.id = ANY(al.throttle_ids))
                      ELSE 0 END AS room"""

CREATE = before.CREATE
for old, new in ((SIGNATURE, NEW_SIGNATURE), (ROOM, NEW_ROOM), (LEFT, NEW_LEFT)):
    assert old in CREATE
    CREATE = CREATE.replace(old, new)
DROP = (
    "DROP FUNCTION jobs_claim_beside_throttles("
    "text, integer, bigint, uuid, double precision, text[], text, timestamptz)"
)


class Migration(migrations.Migration):
    """Sources behind a full throttle are not asked ahead of those that could run."""

    dependencies = [("jobs", "0007_decisions")]

    operations = [
        migrations.RunSQL(before.DROP, before.CREATE),
        migrations.RunSQL(CREATE, DROP),
    ]
