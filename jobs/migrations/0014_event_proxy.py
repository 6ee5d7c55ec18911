from django.db import migrations


class Migration(migrations.Migration):
    """Records that are delivered have a list of their own. No table changes."""

    dependencies = [("jobs", "0013_claim_at_a_rate")]

    operations = [
        migrations.CreateModel(
            name="Event",
            fields=[],
            options={"default_permissions": (), "indexes": [], "constraints": [], "proxy": True},
            bases=("jobs.backlogrecord",),
        ),
    ]
