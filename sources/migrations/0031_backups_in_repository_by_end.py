from django.db import migrations, models

from jobs.online import BuildIndex


class Migration(migrations.Migration):
    dependencies = [("sources", "0030_backups_of_assignment_by_end")]

    atomic = False

    operations = [
        BuildIndex(
            model_name="backup",
            index=models.Index(fields=["repository", "ended_at", "id"], name="backup_in_repository_by_end"),
        )
    ]
