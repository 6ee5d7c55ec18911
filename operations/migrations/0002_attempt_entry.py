from django.db import migrations


class Migration(migrations.Migration):
    """The attempts as the admin lists them: Django's admin cannot show a table with a composite key."""

    dependencies = [("operations", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "CREATE OR REPLACE VIEW operations_attempt_entry AS"
            " SELECT record_id || '-' || number AS id, record_id, number, queue, worker_id, started_at, ended_at, outcome,"
            " error, facts FROM jobs_attempt",
            "DROP VIEW operations_attempt_entry",
        )
    ]
