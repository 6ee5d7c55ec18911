import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerting', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='alertmessage',
            name='raises',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), db_default=[], default=list, help_text='Ids of its open alerts.', size=None),
        ),
    ]
