from django.db import migrations, models

from jobs.online import BuildIndex


class Migration(migrations.Migration):
    dependencies = [("sources", "0028_points_of_a_copy_that_lack_files")]

    atomic = False

    operations = [
        BuildIndex(
            model_name="backup",
            index=models.Index(fields=["ended_at", "id"], include=["assignment"], name="backup_by_end"),
        )
    ]
