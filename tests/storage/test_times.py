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
        ("1980-01-01T00:00:00.000000000Z", False),
    ],
)
def test_a_time_in_the_repository_is_compared_as_far_as_its_file_system_keeps_it(there: str, is_same: bool) -> None:
    assert is_as_wanted((7, there), Entry("a", "file", size=7, modified=LISTED)) is is_same
    assert not is_as_wanted((8, there), Entry("a", "file", size=7, modified=LISTED))


@pytest.mark.parametrize(
    ("listed", "there", "is_same"),
    [
        ("1970-01-01T00:00:01Z", "1980-01-01T00:00:00Z", True),  # FAT
        ("1970-01-01T00:00:01Z", "1979-12-31T11:00:00Z", True),  # FAT, which keeps local times
        ("1601-01-01T00:00:00Z", "1901-12-13T20:45:52Z", True),  # ext4
        ("2026-03-01T09:00:13Z", "2026-03-01T09:00:12Z", True),  # FAT, in steps of two seconds
        ("2026-03-01T09:00:14Z", "2026-03-01T09:00:12Z", False),
        ("2110-01-01T00:00:00Z", "2107-12-31T23:59:58Z", True),
        ("2040-01-01T00:00:00.5Z", "2038-01-19T03:14:07Z", True),  # small inodes of ext4
        ("12026-01-01T00:00:00Z", "2446-05-10T22:38:55Z", True),
        ("1970-01-01T00:00:01Z", "1999-01-01T00:00:00Z", False),
        ("1979-01-01T00:00:00Z", "1978-01-01T00:00:00Z", False),
        ("2040-01-01T00:00:00Z", "2037-01-01T00:00:00Z", False),
        ("2040-01-01T00:00:00Z", "2041-01-01T00:00:00Z", False),
    ],
)
def test_a_time_that_a_disk_cuts_to_its_calendar_is_no_change_each_night(
    listed: str, there: str, is_same: bool
) -> None:
    assert is_as_wanted((7, there), Entry("a", "file", size=7, modified=listed)) is is_same
