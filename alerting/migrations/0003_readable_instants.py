import datetime
import django.db.models.functions.comparison
import django.db.models.lookups
from django.db import migrations, models

from jobs.instants import mended


class Migration(migrations.Migration):
    """What no program could read becomes the nearest instant or day that can be read; then nothing else is taken."""

    dependencies = [
        ('alerting', '0002_message_raises'),
    ]

    operations = [
        mended("alerting_alertroute", "sent_at", "digest_at"),
        mended("alerting_alert", "since", "raised_at", "calm_since", "ended_at"),
        mended("alerting_alertmessage", "made_at", "next_at", "delivered_at"),
        mended("alerting_watch", "looked_at", "resumed_at"),
        migrations.AddConstraint(
            model_name='alert',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('calm_since', 'ended_at', 'raised_at', 'since'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('calm_since', 'ended_at', 'raised_at', 'since'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_an_alert_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='alertmessage',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('delivered_at', 'made_at', 'next_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('delivered_at', 'made_at', 'next_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_an_alert_message_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='alertroute',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('digest_at', 'sent_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('digest_at', 'sent_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_an_alert_route_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='watch',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('looked_at', 'resumed_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('looked_at', 'resumed_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_watch_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
    ]
