import datetime
import django.db.models.functions.comparison
import django.db.models.lookups
from django.db import migrations, models

from jobs.instants import mended


class Migration(migrations.Migration):
    """What no program could read becomes the nearest instant or day that can be read; then nothing else is taken."""

    dependencies = [
        ('sources', '0006_digests_of_manifests'),
    ]

    operations = [
        mended("sources_repository", "made_at", "pruned_at", "room_seen_at", "away_since", "looked_at"),
        mended("sources_policy", "chance_over_at"),
        mended("sources_source", "last_woken_at", "paused_at", "retired_at", "snoozed_until", "checked_in_at", "inserted_at"),
        mended("sources_agenttoken", "inserted_at", "used_at", "revoked_at"),
        mended("sources_enrolmentcode", "inserted_at", "expires_at", "used_at"),
        mended("sources_assignment", "next_backup_at", "last_backup_at", "last_contacted_at", "first_failure_at", "vanished_at", "asked_for_at", "overdue_since", "held_back_since", "to_copy_since", "proved_at", "drill_planned_at", "inserted_at"),
        mended("sources_pause", "since", "until"),
        mended("sources_backup", "started_at", "ended_at"),
        mended("sources_progress", "updated_at"),
        mended("sources_copy", "planned_at", "copied_at", "as_of"),
        mended("sources_checkround", "planned_at", "began_at", "checked_at", "ended_at"),
        mended("sources_restore", "asked_at", "ended_at"),
        mended("sources_selfbackup", "ended_at", days=("day",)),
        mended("sources_recoverykey", "printed_at"),
        migrations.AddConstraint(
            model_name='agenttoken',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('inserted_at', 'revoked_at', 'used_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('inserted_at', 'revoked_at', 'used_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_an_agent_token_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='assignment',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('asked_for_at', 'drill_planned_at', 'first_failure_at', 'held_back_since', 'inserted_at', 'last_backup_at', 'last_contacted_at', 'next_backup_at', 'overdue_since', 'proved_at', 'to_copy_since', 'vanished_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('asked_for_at', 'drill_planned_at', 'first_failure_at', 'held_back_since', 'inserted_at', 'last_backup_at', 'last_contacted_at', 'next_backup_at', 'overdue_since', 'proved_at', 'to_copy_since', 'vanished_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_an_assignment_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='backup',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('ended_at', 'started_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('ended_at', 'started_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_backup_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='checkround',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('began_at', 'checked_at', 'ended_at', 'planned_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('began_at', 'checked_at', 'ended_at', 'planned_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_check_round_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='copy',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('as_of', 'copied_at', 'planned_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('as_of', 'copied_at', 'planned_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_copy_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='enrolmentcode',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('expires_at', 'inserted_at', 'used_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('expires_at', 'inserted_at', 'used_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_an_enrolment_code_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='pause',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('since', 'until'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('since', 'until'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_pause_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='policy',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('chance_over_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('chance_over_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_policy_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='progress',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('updated_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('updated_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_progress_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='recoverykey',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('printed_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('printed_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_recovery_key_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='repository',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('away_since', 'looked_at', 'made_at', 'pruned_at', 'room_seen_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('away_since', 'looked_at', 'made_at', 'pruned_at', 'room_seen_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_repository_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='restore',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('asked_at', 'ended_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('asked_at', 'ended_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_restore_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='selfbackup',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.F('ended_at'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(models.F('ended_at'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc)), django.db.models.lookups.GreaterThanOrEqual(models.F('day'), datetime.date(1, 1, 1)), django.db.models.lookups.LessThanOrEqual(models.F('day'), datetime.date(9999, 12, 31))), name='every_instant_of_a_self_backup_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
        migrations.AddConstraint(
            model_name='source',
            constraint=models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(django.db.models.functions.comparison.Least('checked_in_at', 'inserted_at', 'last_woken_at', 'paused_at', 'retired_at', 'snoozed_until'), datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), django.db.models.lookups.LessThanOrEqual(django.db.models.functions.comparison.Greatest('checked_in_at', 'inserted_at', 'last_woken_at', 'paused_at', 'retired_at', 'snoozed_until'), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc))), name='every_instant_of_a_source_is_readable', violation_error_message='an instant or a day is infinite, or not of the years 1 to 9999'),
        ),
    ]
