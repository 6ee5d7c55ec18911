"""A backup that looks wrong: nothing is removed until a person has looked, and every surface says so."""

import json
import re

import pytest
from django.core.management import call_command
from django.test import Client

from engines.base import EngineResult, Verdict
from jobs.outcomes import Succeeded
from operations.finding import ExaminedCondition, Severity
from sources import planning
from sources.models import Assignment
from sources.planning import held_back
from tests.commands import command
from tests.operations.conditions.examining import finding
from tests.sources.factories import handed_on, make_assignment, settle
from tests.sources.planning.planned import DAY, NINE

pytestmark = pytest.mark.django_db

WHY = "it has 400 files, and each run before had 1,000 or more"


def backed_up(assignment: Assignment, files: int, day: int = 0) -> Assignment:
    """After one more run, which found so many files."""
    now = NINE + day * DAY
    planning.emit_due(now)
    result = EngineResult(Verdict.SUCCEEDED, files * 1000, files, new=files, changed=0, unchanged=0, removed=0)
    settle(handed_on(assignment, now), Succeeded(result), now)
    assignment.refresh_from_db()
    return assignment


run, _ = command("sources held-back")
accept, refused = command("sources accept")


@pytest.fixture
def shrunk() -> Assignment:
    assignment = backed_up(make_assignment(), 1000)
    assert assignment.held_back_since is None
    return backed_up(assignment, 400, day=1)


def test_a_shrink_is_held_back_until_a_person_accepts_it_and_then_it_is_the_measure(shrunk: Assignment) -> None:
    assert (shrunk.held_back_since, shrunk.held_back_why) == (NINE + DAY, WHY)
    assert backed_up(shrunk, 300, day=2).held_back_since == NINE + DAY
    assert (held_back.accept([shrunk.pk]), held_back.accept([shrunk.pk])) == (1, 0)
    assert backed_up(shrunk, 280, day=3).held_back_since is None
    assert backed_up(shrunk, 120, day=4).held_back_since == NINE + 4 * DAY


def test_the_command_the_log_and_the_doctor_say_so(shrunk: Assignment, capsys: pytest.CaptureFixture[str]) -> None:
    def look() -> ExaminedCondition:
        return finding("held_back", NINE)

    name = shrunk.source.name
    call_command("backlog", "log", name, "--since", "2026-03-01T00:00")
    log = capsys.readouterr().out
    assert re.search(f"  held back +{name}: {WHY}; none of its points are removed until", log)
    assert "1,000 files (1,000 new), 1,000,000 bytes; its next" in log
    [row] = json.loads(run("--json"))
    assert (row["source"], row["why"]) == (name, WHY)
    assert WHY in run()
    assert (look().severity, len(look().found)) == (Severity.WARNING, 1)
    assert f"{name}, {WHY}" in look().what
    assert "accepted" in accept(name)
    assert look().severity is Severity.OK
    assert run() == "Nothing is held back.\n"
    refused(name, code=1)
    assert "there is no source 'nothing'" in refused("nothing")


def test_the_admin_shows_why_and_has_the_button(shrunk: Assignment, admin_client: Client) -> None:
    other = make_assignment()
    page = f"/admin/sources/assignment/{shrunk.pk}/"
    held = admin_client.get("/admin/sources/assignment/", {"held_back_since__isempty": "0"})
    assert list(held.context["cl"].queryset) == [shrunk]
    for url in (f"{page}change/", f"/admin/sources/source/{shrunk.source_id}/change/", f"{page}accept/"):
        assert WHY in admin_client.get(url, follow=True).content.decode()
    assert f"{page}accept/" in admin_client.get(f"{page}change/").content.decode()
    assert "/accept" not in admin_client.get(f"/admin/sources/assignment/{other.pk}/change/").content.decode()
    admin_client.post(f"{page}accept/", {"confirmed": "yes"})
    shrunk.refresh_from_db()
    assert (shrunk.held_back_since, shrunk.held_back_why) == (None, "")
