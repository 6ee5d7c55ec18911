"""States from before the first release that play one: commits of this repository, and dumps of their databases."""

from proving.upgrades.releases import Release
from tests.documents import ROOT

OLDER = Release(
    version="0.1.0-candidate-1",
    commit="08e6beae",
    database=ROOT / "tests/upgrades/candidate-1.sql.gz",
    migrations={
        "alerting": "0002_message_raises", "api": "0001_initial", "dashboard": "0001_home",
        "delivery": "0001_initial", "jobs": "0002_functions_and_presets", "operations": "0002_attempt_entry",
        "schedules": "0001_initial", "sources": "0003_room_lacked",
    },
)  # fmt: skip
"""Its database migrates to the newest version; the newest tables lack what its program uses."""
NEWER = Release(
    version="0.1.0-candidate-2",
    commit="982963cb",
    database=ROOT / "tests/upgrades/candidate-2.sql.gz",
    migrations={
        "alerting": "0003_readable_instants", "api": "0001_initial", "audit": "0001_audit_entry",
        "dashboard": "0001_home", "delivery": "0002_readable_instants", "jobs": "0005_cancelled_records",
        "operations": "0002_attempt_entry", "schedules": "0002_readable_instants",
        "sources": "0022_a_snooze_is_a_pause_by_the_user",
    },
)  # fmt: skip
"""The newest program works with its tables, and its program with the newest tables."""
