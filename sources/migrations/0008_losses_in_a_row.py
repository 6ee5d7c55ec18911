from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0007_readable_instants'),
    ]

    operations = [
        migrations.AddField(
            model_name='assignment',
            name='losses',
            field=models.IntegerField(default=0, editable=False, help_text='In mid-backup, in a row: since the last success.'),
        ),
        migrations.AlterField(
            model_name='assignment',
            name='vanished_at',
            field=models.DateTimeField(blank=True, editable=False, help_text='When its source was last lost so, since the last success.', null=True),
        ),
    ]
