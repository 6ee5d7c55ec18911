from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0010_source_woken'),
    ]

    operations = [
        migrations.AddField(
            model_name='source',
            name='real_path',
            field=models.TextField(blank=True, default='', editable=False, help_text="Where its path on the worker's host led when it was saved, links resolved; empty: not looked at."),
        ),
    ]
