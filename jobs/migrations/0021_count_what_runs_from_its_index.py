from importlib import import_module

from django.db import migrations, models
from django.db.models import Q

claim = import_module("jobs.migrations.0016_claim_counts_once_a_lane").CLAIM


class Migration(migrations.Migration):
    """A claim beside throttles read the rows of all that runs twice, for the name of their queue."""

    dependencies = [("jobs", "0020_rate_counts")]

    operations = [
        migrations.RemoveIndex(model_name="backlogrecord", name="backlog_running_lane"),
        migrations.AddIndex(
            model_name="backlogrecord",
            index=models.Index("lane", "queue", name="backlog_running_lane", condition=Q(status=2) & ~Q(lane=0)),
        ),
        migrations.RunSQL(claim.read_text(), migrations.RunSQL.noop),
    ]
