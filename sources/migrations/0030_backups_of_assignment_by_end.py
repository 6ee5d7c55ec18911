from django.db import migrations, models

from jobs.online import BuildIndex


class Migration(migrations.Migration):
    dependencies = [("sources", "0029_backups_by_end")]

    atomic = False

    operations = [
        BuildIndex(
            model_name="backup",
            index=models.Index(fields=["assignment", "ended_at", "id"], name="backup_of_assignment_by_end"),
        )
    ]
