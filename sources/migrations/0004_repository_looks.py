from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0003_room_lacked'),
    ]

    operations = [
        migrations.AddField(
            model_name='repository',
            name='away_since',
            field=models.DateTimeField(editable=False, help_text='When a look first missed it, or it was moved; empty: it was seen since.', null=True),
        ),
        migrations.AddField(
            model_name='repository',
            name='away_why',
            field=models.TextField(blank=True, db_default='', default='', editable=False, help_text='Why it is not where it was; empty: it is, or that is not known yet.'),
        ),
        migrations.AddField(
            model_name='repository',
            name='looked_at',
            field=models.DateTimeField(editable=False, help_text='When the last round of looks for the newest points there began.', null=True),
        ),
        migrations.AddField(
            model_name='repository',
            name='looked_to',
            field=models.BigIntegerField(default=0, editable=False, help_text='The assignment that this round has come to; 0: none is under way.'),
        ),
    ]
