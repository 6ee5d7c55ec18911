import datetime
import django.db.models.functions.comparison
import django.db.models.lookups
from django.db import migrations, models

from jobs.instants import mended


class Migration(migrations.Migration):
    """What no program could read becomes the nearest instant or day that can be read; then nothing else is taken."""

    dependencies = [
        ('schedules', '0001_initial'),
    ]

    operations = [
        mended("schedules_schedule", "next_trigger_at"),
        mended("schedules_trigger", "trigger_at", "seen_at", "emitted_at", "begins_at", "closes_at", "finished_at"),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('next_trigger_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('next_trigger_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_schedule_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='trigger',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('begins_at', 'closes_at', 'emitted_at', 'finished_at', 'seen_at', 'trigger_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('begins_at', 'closes_at', 'emitted_at', 'finished_at', 'seen_at', 'trigger_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_trigger_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
    ]
