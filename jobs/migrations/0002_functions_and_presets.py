from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parents[1] / "sql"
MADE = ("token_buckets", "claim_beside_throttles")

# Room for updates in place, and vacuum before dead rows pile up at the head of the claim index.
TABLE_SETTINGS = """
ALTER TABLE jobs_backlogrecord SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
)
"""

LARGEST = 2**31 - 1

PUBLISHED = (
    {"name": "constant", "algorithm": "constant", "parameters": {"base": 300}},
    {"name": "exponential", "algorithm": "exponential", "parameters": {"least": 180, "unit": 60}},
    {"name": "sidekiq", "algorithm": "sidekiq", "parameters": {"unit": 1}},
    {"name": "buckets", "algorithm": "buckets", "parameters": {"unit": 1}},
    {"name": "fibonacci", "algorithm": "fibonacci", "parameters": {"unit": 60}},
    {"name": "progressive", "algorithm": "progressive", "parameters": {}},
)
"""As published: no wait is cut off, and none of them gives up by count."""

OURS = (
    {"name": "phased", "algorithm": "phased", "parameters": {"unit": 15}, "max_delay": 86_400},
    {"name": "every 5 minutes", "algorithm": "constant", "parameters": {"base": 300}, "max_failures": 288},
    {
        "name": "exponential, full jitter",
        "algorithm": "exponential",
        "parameters": {"least": 180, "unit": 60, "jitter": "full"},
        "max_delay": 14_400,
    },
    {
        "name": "sidekiq, 25 retries",
        "algorithm": "sidekiq",
        "parameters": {},
        "max_delay": 1_000_000,
        "max_failures": 26,
    },
    {"name": "buckets, 15 s", "algorithm": "buckets", "parameters": {"unit": 15}, "max_delay": 86_400},
    {"name": "fibonacci, a day at most", "algorithm": "fibonacci", "parameters": {"unit": 60}, "max_delay": 86_400},
)


def install(apps, schema_editor):
    """Policies to choose from, each editable."""
    policies = apps.get_model("jobs", "RetryPolicy").objects.using(schema_editor.connection.alias)
    for preset in PUBLISHED:
        policies.get_or_create(name=preset["name"], defaults={"max_delay": LARGEST, **preset})
    for preset in OURS:
        policies.get_or_create(name=preset["name"], defaults=preset)


class Migration(migrations.Migration):
    """What no model declares: storage settings, the throttles' functions; and retry policies to choose from."""

    dependencies = [("jobs", "0001_queue")]

    operations = [
        migrations.RunSQL(TABLE_SETTINGS, migrations.RunSQL.noop),
        *(migrations.RunSQL((SQL / f"{name}.sql").read_text(), migrations.RunSQL.noop) for name in MADE),
        migrations.RunPython(install, migrations.RunPython.noop),
    ]
