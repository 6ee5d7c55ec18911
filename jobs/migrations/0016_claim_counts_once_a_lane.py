from importlib import import_module
from pathlib import Path

from django.db import migrations

before = import_module("jobs.migrations.0013_claim_at_a_rate")

CLAIM = Path(__file__).parents[1] / "sql" / "claim_beside_throttles.sql"

DROP = """
DROP FUNCTION jobs_claim_beside_throttles(
    text, integer, bigint, uuid, double precision, text[], text, integer[], timestamptz);
DROP FUNCTION jobs_room;
"""


class Migration(migrations.Migration):
    """A claim beside throttles counts what is in flight once a lane, and says which throttles its records name."""

    dependencies = [("jobs", "0015_batches_keep_to_what_they_were_begun_with")]

    operations = [migrations.RunSQL(CLAIM.read_text(), DROP + before.CLAIM)]
