from django.db import migrations


class Migration(migrations.Migration):
    """The history of an assignment, for the matrix and its page.

    No model declares it: the queue, whose table it is of, knows no backups, and what it counts by the ten thousand a
    second is no backup and in no such index.
    """

    dependencies = [("sources", "0001_sources")]

    operations = [
        migrations.RunSQL(
            "CREATE INDEX backups_of_subject ON jobs_backlogrecord (subject, finished_at)"
            " WHERE kind = 'backup' AND finished_at IS NOT NULL",
            "DROP INDEX backups_of_subject",
        )
    ]
