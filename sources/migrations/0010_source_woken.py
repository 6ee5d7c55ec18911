from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0009_repositories_of_superusers'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='source',
            index=models.Index(models.F('last_woken_at'), condition=models.Q(('last_woken_at__isnull', False)), name='source_woken'),
        ),
    ]
