import datetime
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.lookups
from django.db import migrations, models

from jobs.instants import mended


class Migration(migrations.Migration):
    """What no program could read becomes the nearest instant or day that can be read; then nothing else is taken."""

    dependencies = [
        ('jobs', '0002_functions_and_presets'),
    ]

    operations = [
        mended("jobs_sweep", "swept_at"),
        mended("jobs_throttle", "tokens_at"),
        mended("jobs_breaker", "last_failure_at", "opened_at", "probe_at"),
        mended("jobs_worker", "started_at", "heartbeat_at", "stopped_at", "out_of_sockets_at"),
        mended("jobs_pausedqueue", "paused_at"),
        mended("jobs_hold", "since"),
        mended("jobs_pasthold", "since", "until"),
        mended("jobs_backlogrecord", "inserted_at", "run_after", "closes_at", "finished_at", "tried_at", "first_failure_at", "last_failure_at", "started_at", "lease_expires_at", "cancel_requested_at", "trigger_at", days=("due_day", "rank_day",)),
        migrations.AlterField(
            model_name='backlogrecord',
            name='attempt',
            field=models.IntegerField(db_default=0, default=0, help_text='The fencing token: one more at each claim.'),
        ),
        migrations.AlterField(
            model_name='backlogrecord',
            name='failures',
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name='backlogrecord',
            name='lane',
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name='backlogrecord',
            name='last_error',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
        migrations.AlterField(
            model_name='backlogrecord',
            name='payload',
            field=models.JSONField(db_default={}, default=dict, help_text='What its handler needs; `title` names it.'),
        ),
        migrations.AlterField(
            model_name='backlogrecord',
            name='priority',
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name='backlogrecord',
            name='run_after',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='Not looked at before.'),
        ),
        migrations.AlterField(
            model_name='backlogrecord',
            name='status',
            field=models.SmallIntegerField(choices=[(0, 'waiting'), (1, 'ready'), (2, 'running'), (3, 'succeeded'), (4, 'failed'), (5, 'cancelled')], db_default=1, default=1),
        ),
        migrations.AddConstraint(
            model_name='backlogrecord',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('cancel_requested_at', 'closes_at', 'finished_at', 'first_failure_at', 'inserted_at', 'last_failure_at', 'lease_expires_at', 'run_after', 'started_at', 'tried_at', 'trigger_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('cancel_requested_at', 'closes_at', 'finished_at', 'first_failure_at', 'inserted_at', 'last_failure_at', 'lease_expires_at', 'run_after', 'started_at', 'tried_at', 'trigger_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc)), django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('due_day', 'rank_day'), datetime.date(1, 1, 1)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('due_day', 'rank_day'), datetime.date(9999, 12, 31))), name='every_instant_of_a_record_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='breaker',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('last_failure_at', 'opened_at', 'probe_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('last_failure_at', 'opened_at', 'probe_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_breaker_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='hold',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('since'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('since'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_hold_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='pasthold',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('since', 'until'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('since', 'until'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_past_hold_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='pausedqueue',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('paused_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('paused_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_paused_queue_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='sweep',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('swept_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('swept_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_sweep_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='throttle',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('tokens_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('tokens_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_throttle_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='worker',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('heartbeat_at', 'out_of_sockets_at', 'started_at', 'stopped_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('heartbeat_at', 'out_of_sockets_at', 'started_at', 'stopped_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_worker_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
    ]
