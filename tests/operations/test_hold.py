"""Everything is held and released by a button, a command and the API, and that is said everywhere meanwhile."""

import json

import pytest
from django.test import Client

from jobs import backlog
from jobs.clock import database_clock
from operations import conditions
from operations.backlog.attention import attention
from operations.backlog.reasons import explain
from operations.backlog.summary import summary
from operations.finding import Severity
from tests.api.asking import Program, fields_of
from tests.commands import command
from tests.factories import make_record

pytestmark = pytest.mark.django_db

QUEUES, HOME = "/admin/jobs/pausedqueue/", "/admin/jobs/backlogrecord/"
HELD = "Everything has been on hold since"

hold, refused = command("backlog hold")
release, _ = command("backlog release")


def test_the_button_holds_every_page_says_so_with_a_button_that_releases_and_who_only_looks_gets_none(
    operator: Client,
) -> None:
    assert HELD not in operator.get(HOME).content.decode()
    page = operator.post(QUEUES, {"verb": "hold", "reason": " <ransom> "}, follow=True).content.decode()
    assert HELD in page
    assert "&lt;ransom&gt;. No backup," in operator.get(HOME).content.decode()
    assert "Everything is resumed." in operator.post(QUEUES, {"verb": "release"}, follow=True).content.decode()
    assert HELD not in operator.get(HOME).content.decode()
    assert "a reason is missing" in operator.post(QUEUES, {"verb": "hold"}, follow=True).content.decode()


def test_the_command_holds_and_backlog_doctor_and_the_reasons_of_a_record_say_so() -> None:
    record = make_record()
    assert "spring cleaning" in hold("--reason", "spring cleaning")
    assert any(line.startswith(HELD) and "spring cleaning" in line for line in attention(summary()))
    assert explain(record, database_clock()).reasons[0].text.startswith(HELD.replace("E", "e"))
    [finding] = [each for each in conditions.examine() if each.name == "on_hold"]
    assert (finding.severity, len(finding.found)) == (Severity.WARNING, 1)
    assert json.loads(release("--json")) == {"changed": True}
    assert "nothing was on hold" in release()
    assert "reason is missing" in refused("--reason", "")


def test_the_api_holds_tells_and_releases() -> None:
    program = Program()
    assert program.get("hold").json() == {
        "held": False, "since": None, "until": None, "reason": "", "by": "",
    }  # fmt: skip

    for blank in ("", " "):
        assert fields_of(program.post("hold", {"reason": blank})) == {
            "reason": "is missing: give a reason, for the next operator"
        }
    found = program.post("hold", {"reason": "a bad day"}).json()
    assert (found["held"], found["reason"], found["by"]) == (True, "a bad day", str(program.user))
    assert program.get("hold").json() == found
    assert program.delete("hold").json()["held"] is False
    assert backlog.held() is None
