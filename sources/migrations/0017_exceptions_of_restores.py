from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0016_backups_by_point'),
    ]

    operations = [
        migrations.AddField(
            model_name='restore',
            name='missing',
            field=models.JSONField(default=list, help_text='What is not in the point, and why: the first 100.'),
        ),
        migrations.AddField(
            model_name='restore',
            name='old',
            field=models.JSONField(default=list, help_text='What the point has as of an earlier one.'),
        ),
        migrations.AlterField(
            model_name='restore',
            name='not_set',
            field=models.JSONField(default=list, help_text='Owners, modes, times and attributes that could not be set.'),
        ),
    ]
