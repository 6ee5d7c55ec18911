from django.db import migrations, models


class Migration(migrations.Migration):
    """Removing a schedule read the whole backlog: no index had those of its records that no trigger emitted."""

    dependencies = [("jobs", "0016_claim_counts_once_a_lane")]

    operations = [
        migrations.RemoveConstraint(model_name="backlogrecord", name="one_record_per_trigger_and_subject"),
        migrations.AddConstraint(
            model_name="backlogrecord",
            constraint=models.UniqueConstraint(
                models.F("schedule"),
                models.F("trigger_at"),
                models.F("subject"),
                condition=models.Q(schedule__isnull=False),
                name="one_record_per_trigger_and_subject",
            ),
        ),
    ]
