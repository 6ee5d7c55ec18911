from django.db import migrations

COLUMNS = "record_id, number, queue, worker_id, started_at, ended_at, outcome, error"


def view(columns: str) -> str:
    return f"""
    DROP VIEW IF EXISTS jobs_attempt_entry;
    CREATE VIEW jobs_attempt_entry AS
    SELECT record_id || '-' || number AS id, {columns}
      FROM jobs_attempt
    """


class Migration(migrations.Migration):
    """What an attempt found is listed with it."""

    dependencies = [("jobs", "0011_schedules_throttles_and_delivery")]

    operations = [
        migrations.RunSQL(view(f"{COLUMNS}, facts"), view(COLUMNS)),
        migrations.AlterModelOptions(
            name="attemptentry",
            options={"managed": False, "ordering": ["-record_id", "-number"], "verbose_name": "attempt"},
        ),
    ]
