from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sources", "0020_what_a_backup_does_not_keep")]

    operations = [
        migrations.AddField(
            model_name="repository",
            name="untried",
            field=models.CharField(
                blank=True,
                choices=[("usual", "as usual"), ("forced", "also where other files lie, or its points do not")],
                db_default="",
                default="",
                editable=False,
                help_text="How it is still to be tried since it was saved over the web; empty: it was.",
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="repository",
            name="tried",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="What the last try found that came after it was saved over the web, for users.",
            ),
        ),
    ]
