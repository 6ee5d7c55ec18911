import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("sources", "0005_reach_of_accounts"),
    ]

    operations = [
        migrations.AddField(
            model_name="policy",
            name="least_rate",
            field=models.PositiveIntegerField(blank=True, help_text="Bytes a second. A backup that fetches fewer over five minutes is ended, which is a failure of its source. Many small files are slow by nature. Empty: no limit.", null=True, validators=[django.core.validators.MinValueValidator(1)]),
        ),
    ]
