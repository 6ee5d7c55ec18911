from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0025_what_is_foreseen'),
    ]

    operations = [
        migrations.AddField(
            model_name='foresight',
            name='unnamed',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='Those that miss their period in a run, on average, without being at risk.'),
        ),
    ]
