"""Workers of two versions on one backlog, with the tables of the newer one, in a storm."""

import pytest

from proving.chaos.server import make_directory, remove_directory
from proving.upgrades import releases
from proving.upgrades.checkout import has
from tests.proving.chaos.commands import run

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_workers_of_the_last_release_beside_those_of_this_version_lose_nothing() -> None:
    release = releases.read().releases[-1]
    if not has(release.commit):
        pytest.skip(f"this clone has no commit {release.commit}")
    place = make_directory()
    try:
        storm = ("--minutes", "0.35", "--seed", "7", "--workers", "4", "--lease", "4")
        report = run(place, "proving.chaos", *storm, "--beside", release.commit)
    finally:
        remove_directory(place)
    assert report["discrepancies"] == []
    assert sum(report["by_version"].values()) == report["attempts"]
    assert all(count > 100 for count in report["by_version"].values()), report["by_version"]
