"""Times as file systems and protocols cut them."""

import pytest

from engines.rclone.bringing import is_as_wanted
from storage.points.entries import Entry

LISTED = "2026-03-01T09:00:12.123456789Z"


@pytest.mark.parametrize(
    ("there", "is_same"),
    [
        ("2026-03-01T09:00:12.123456789Z", True),
        ("2026-03-01T09:00:12.123456700Z", True),  # CIFS, NTFS
        ("2026-03-01T09:00:12.123456000Z", True),  # UDF
        ("2026-03-01T09:00:12.123000000Z", True),
        ("2026-03-01T09:00:12.120000000Z", True),  # exFAT
        ("2026-03-01T09:00:12.000000000Z", True),
        ("2026-03-01T09:00:12.130000000Z", False),
        ("2026-03-01T09:00:12.123456800Z", False),
        ("2026-03-01T09:00:13.500000000Z", False),
        ("12026-03-01T09:00:12.000000000Z", False),
    ],
)
def test_a_time_in_the_repository_is_compared_as_far_as_its_file_system_keeps_it(there: str, is_same: bool) -> None:
    assert is_as_wanted((7, there), Entry("a", "file", size=7, modified=LISTED)) is is_same
    assert not is_as_wanted((8, there), Entry("a", "file", size=7, modified=LISTED))
