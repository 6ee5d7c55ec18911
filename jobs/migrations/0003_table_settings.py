from django.db import migrations


class Migration(migrations.Migration):
    """Room for updates in place, and vacuum before dead rows pile up at the head of the claim index."""

    dependencies = [("jobs", "0002_attempt_entry_view")]

    operations = [
        migrations.RunSQL(
            """
            ALTER TABLE jobs_backlogrecord SET (
                fillfactor = 80,
                autovacuum_vacuum_scale_factor = 0.02,
                autovacuum_vacuum_cost_delay = 0
            )
            """,
            """
            ALTER TABLE jobs_backlogrecord RESET (
                fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay
            )
            """,
        )
    ]
