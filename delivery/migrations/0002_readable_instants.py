import datetime
import django.db.models.functions.comparison
import django.db.models.lookups
from django.db import migrations, models

from jobs.instants import mended


class Migration(migrations.Migration):
    """What no program could read becomes the nearest instant or day that can be read; then nothing else is taken."""

    dependencies = [
        ('delivery', '0001_initial'),
    ]

    operations = [
        mended("delivery_signingsecret", "created_at", "retires_at"),
        mended("delivery_storedsecret", "changed_at"),
        migrations.AddConstraint(
            model_name='signingsecret',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('created_at', 'retires_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('created_at', 'retires_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_signing_secret_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='storedsecret',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('changed_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('changed_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_stored_secret_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
    ]
