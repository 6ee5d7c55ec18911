from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0004_pause_until'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='backlogrecord',
            index=models.Index(models.F('finished_at'), models.F('id'), condition=models.Q(('status', 5)), name='backlog_cancelled'),
        ),
    ]
