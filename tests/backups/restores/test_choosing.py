"""The point that a time means."""

from datetime import timedelta

import pytest

from backups.restores import requests
from sources.models import Assignment, Backup
from storage import layout
from tests.backups import points_to_remove
from tests.backups.points_to_remove import NOW
from tests.storage.played_runs import Played

assignment, played = points_to_remove.assignment, points_to_remove.played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]


def test_a_time_means_the_point_that_was_made_by_then_although_an_earlier_run_had_a_clock_that_was_ahead(
    assignment: Assignment, played: Played
) -> None:
    """All later points have names of that second."""
    _, _, before, *later = played.points()
    ahead = layout.name_of(NOW + timedelta(days=365))
    for number, point in enumerate(later, start=2):
        name = f"{ahead}-{number}"
        played.manifest(point).rename(played.manifest(name))
        Backup.objects.filter(snapshot=point).update(snapshot=name)
    for at, name in ((before, before), (later[0], f"{ahead}-2"), (later[1], f"{ahead}-3")):
        written = layout.instant_of(at).isoformat()
        assert requests.choose(assignment, written, NOW)[0] == name
