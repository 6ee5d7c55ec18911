from django.db import migrations, models


class Migration(migrations.Migration):
    """Both columns are NULL: no table is rewritten."""

    dependencies = [("jobs", "0017_find_the_records_of_a_schedule")]

    operations = [
        migrations.AddField(
            "worker",
            "sockets",
            models.IntegerField(
                null=True,
                help_text="How many sockets its questions may hold open, as its limit of file descriptors allows.",
            ),
        ),
        migrations.AddField(
            "worker",
            "out_of_sockets_at",
            models.DateTimeField(null=True, help_text="When it last asked nobody else because all of them were open."),
        ),
    ]
