from django.db import migrations

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

BEFORE = {
    "sidekiq": {"parameters": {}, "max_delay": 1_000_000, "max_failures": 26},
    "buckets": {"parameters": {"unit": 15}, "max_delay": 86_400, "max_failures": None},
    "fibonacci": {"parameters": {"unit": 60}, "max_delay": 86_400, "max_failures": None},
}
"""What 0010 put under the names of the published ones."""


def install(apps, schema_editor):
    """What is in use, was edited, or is a person's own under one of these names stays as it is."""
    alias = schema_editor.connection.alias
    policies = apps.get_model("jobs", "RetryPolicy").objects.using(alias)
    used = [apps.get_model("jobs", name).objects.using(alias) for name in ("Schedule", "BacklogRecord")]
    for name, values in BEFORE.items():
        row = policies.filter(name=name, algorithm=name, give_up_after=None, **values).first()
        if row is not None and not any(each.filter(retry_policy=row).exists() for each in used):
            row.delete()
    for preset in PUBLISHED:
        policies.get_or_create(name=preset["name"], defaults={"max_delay": LARGEST, **preset})
    for preset in OURS:
        policies.get_or_create(name=preset["name"], defaults=preset)


class Migration(migrations.Migration):
    """The published retry policies under their names, and ours beside them under names of their own."""

    dependencies = [("jobs", "0018_a_worker_says_how_many_sockets_it_may_open")]

    operations = [migrations.RunPython(install, migrations.RunPython.noop)]
