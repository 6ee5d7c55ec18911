from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0002_backups_of_subject'),
    ]

    operations = [
        migrations.AddField(
            model_name='assignment',
            name='room_lacked',
            field=models.BigIntegerField(blank=True, editable=False, help_text='Bytes that were free where a backup needed more, and was ended; empty: none since its last success.', null=True),
        ),
        migrations.AddIndex(
            model_name='assignment',
            index=models.Index(models.F('policy'), condition=models.Q(('room_lacked__isnull', False)), name='assignment_lacks_room'),
        ),
    ]
