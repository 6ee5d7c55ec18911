from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0017_exceptions_of_restores'),
    ]

    operations = [
        migrations.AddField(
            model_name='copy',
            name='came',
            field=models.IntegerField(
                default=0, help_text='Points that came since some were removed last: no more are then removed.'
            ),
        ),
        migrations.AddField(
            model_name='copy',
            name='thinned_by',
            field=models.JSONField(
                help_text='The rules by which they were removed; under others there is no such limit.',
                null=True,
            ),
        ),
        migrations.AddField(
            model_name='manifestdigest',
            name='accepted',
            field=models.BooleanField(default=False, help_text='A person has taken it for ours.'),
        ),
    ]
