"""What lies in repositories is read, some of it each day, and what is damaged is shown."""

import json
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from jobs.models import Decision
from jobs.outcomes import Failed, Outcome, Succeeded
from sources.backups import check
from sources.models import Assignment, Backup, CheckRound, Repository
from sources.storage import layout
from tests.sources.backups.test_retention import add_backup, at_work, run
from tests.sources.factories import make_assignment, make_policy
from tests.sources.storage.played_runs import ASSIGNMENT, BEGAN, Played

pytestmark = pytest.mark.django_db(transaction=True)

NOW = BEGAN + timedelta(days=9)


@pytest.fixture
def played(tmp_path: Path) -> Played:
    made = Played(tmp_path)
    for number in range(2):
        made.back_up({"a": f"{number}", "b": "the same"})
    return made


@pytest.fixture
def assignment(played: Played) -> Assignment:
    repository = Repository.objects.create(name="office", location=str(played.root))
    made = make_assignment(make_policy(repository=repository), directory=ASSIGNMENT)
    for number, point in enumerate(played.points()):
        add_backup(made, point, number)
    return made


def checked(now: datetime) -> Outcome:
    """What is planned, done and settled."""
    assert check.plan(now) == 1
    return run(at_work(now), now)


def test_a_flipped_bit_is_found_and_shown_at_its_source_until_it_is_mended(
    assignment: Assignment, played: Played, admin_client: Client
) -> None:
    assert isinstance(checked(NOW), Succeeded)
    row = CheckRound.objects.get()
    assert (row.damage, row.ended_at, row.part) == ([], NOW, "")
    assert check.plan(NOW + timedelta(hours=19)) == 0, "once a day"
    file = played.current / "b"
    file.write_text("the sbme")
    checked(NOW + timedelta(days=1))
    [damage] = CheckRound.objects.get().damage
    assert (damage["point"], damage["path"], damage["place"]) == (played.points()[-1], "b", "current")
    assert damage["point"] in Decision.objects.get(what="damaged").text
    page = admin_client.get(f"/admin/sources/assignment/{assignment.pk}/change/").content.decode()
    assert "its content has changed: SHA-256" in page
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--json", stdout=out)
    [found] = [each for each in json.loads(out.getvalue()) if each["name"] == "damage"]
    assert f"'b' of {played.points()[-1]} in current" in found["what"]
    assert file.stat().st_mtime == 946_684_800, "the next backup takes it for changed"
    file.write_text("the same")
    checked(NOW + timedelta(days=2))
    assert CheckRound.objects.get().damage == []


def test_it_waits_for_nothing_that_was_never_backed_up_and_fails_without_its_repository(
    assignment: Assignment, tmp_path: Path
) -> None:
    Backup.objects.all().delete()
    assert check.plan(NOW) == 0
    add_backup(assignment, layout.name_of(BEGAN), 7)
    assignment.policy.check_within = None
    assignment.policy.save()
    assert check.plan(NOW) == 0
    assignment.policy.check_within = 86_400
    assignment.policy.save()
    tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-away"))
    assert isinstance(checked(NOW), Failed)
    assert "is it mounted?" in Decision.objects.get(what="failed").text
