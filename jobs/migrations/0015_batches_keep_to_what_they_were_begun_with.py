from django.db import migrations, models


class Migration(migrations.Migration):
    """A trigger knows what its batch was begun with. All four columns are NULL or a constant: no table is rewritten."""

    dependencies = [("jobs", "0014_event_proxy")]

    operations = [
        migrations.AddField(
            "trigger",
            "begins_at",
            models.DateTimeField(
                null=True,
                help_text="From when on its events start: its launch time, or when it was seen, if that was late.",
            ),
        ),
        migrations.AddField(
            "trigger",
            "stagger",
            models.CharField(
                max_length=10,
                choices=[("none", "all at the trigger"), ("even", "spread evenly over the window")],
                blank=True,
                default="",
                db_default="",
                help_text="What its batch was begun with.",
            ),
        ),
        migrations.AddField(
            "trigger",
            "late",
            models.CharField(
                max_length=10,
                choices=[("deliver", "deliver it all the same"), ("drop", "drop it: it fails")],
                blank=True,
                default="",
                db_default="",
                help_text="What its batch was begun with.",
            ),
        ),
        migrations.AddField(
            "trigger",
            "recipe",
            models.JSONField(
                null=True, help_text="What the rest of its batch is made of, while only a part of it is on the backlog."
            ),
        ),
    ]
