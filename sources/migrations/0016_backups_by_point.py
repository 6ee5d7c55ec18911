from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0015_pause_until'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='backup',
            index=models.Index(fields=['snapshot'], name='backup_snapshot', opclasses=['varchar_pattern_ops']),
        ),
    ]
