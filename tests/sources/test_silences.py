"""A laptop that stays away for weeks leaves a line in the log, and not one for each time it was asked."""

from datetime import timedelta

import pytest
from django.core.management import call_command

from jobs import tick
from jobs.models import Attempt
from jobs.outcomes import Unavailable
from operations import silences
from sources import planning
from tests.sources.factories import MONDAY, claim, make_assignment, settle

pytestmark = pytest.mark.django_db

QUARTER = timedelta(minutes=15)


def test_a_source_that_stays_silent_leaves_one_row_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assignment = make_assignment()
    planning.emit_due(MONDAY)
    for number in range(9):
        now = MONDAY + number * QUARTER
        tick.promote(now)
        settle(claim("availability", now), Unavailable("no answer", 900), now)
    assert silences.compact(MONDAY + timedelta(days=1)) == 8
    assert Attempt.objects.get().facts == {silences.SILENCES: 9}
    call_command("backlog", "log", assignment.source.name, "--since", "2026-03-01T00:00")
    silent = [line for line in capsys.readouterr().out.splitlines() if "no answer" in line]
    assert len(silent) == 1
    assert silent[0].rstrip().endswith("(silent 9 times since 2026-03-02 00:00 UTC)")
