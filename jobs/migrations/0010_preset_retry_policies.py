from django.db import migrations

PRESETS = (
    {"name": "phased", "algorithm": "phased", "parameters": {"unit": 15}, "max_delay": 86_400},
    {"name": "fibonacci", "algorithm": "fibonacci", "parameters": {"unit": 60}, "max_delay": 86_400},
    {
        "name": "exponential, full jitter",
        "algorithm": "exponential",
        "parameters": {"least": 180, "unit": 60, "jitter": "full"},
        "max_delay": 14_400,
    },
    {"name": "sidekiq", "algorithm": "sidekiq", "parameters": {}, "max_delay": 1_000_000, "max_failures": 26},
    {"name": "buckets", "algorithm": "buckets", "parameters": {"unit": 15}, "max_delay": 86_400},
    {"name": "every 5 minutes", "algorithm": "constant", "parameters": {"base": 300}, "max_failures": 288},
    {"name": "progressive", "algorithm": "progressive", "parameters": {}},
)


def install(apps, schema_editor):
    """Policies to choose from. What a person has under one of these names stays as it is."""
    policies = apps.get_model("jobs", "RetryPolicy").objects.using(schema_editor.connection.alias)
    for preset in PRESETS:
        policies.get_or_create(name=preset["name"], defaults=preset)


def raise_what_is_too_small(apps, schema_editor):
    """Parameters are at least a millisecond from now on."""
    policies = apps.get_model("jobs", "RetryPolicy").objects.using(schema_editor.connection.alias)
    for policy in policies.all():
        given = policy.parameters if isinstance(policy.parameters, dict) else {}
        raised = {key: max(value, 0.001) if isinstance(value, float) else value for key, value in given.items()}
        if raised != given:
            policy.parameters = raised
            policy.save(update_fields=["parameters"])


class Migration(migrations.Migration):
    """Retry policies to choose from, each editable."""

    dependencies = [("jobs", "0009_retries_sweeps_and_breakers")]

    operations = [
        migrations.RunPython(install, migrations.RunPython.noop),
        migrations.RunPython(raise_what_is_too_small, migrations.RunPython.noop),
    ]
