"""`manage.py breakers`."""

import json

import pytest

from jobs.models import Breaker
from jobs.outcomes import Guarded
from tests.commands import command
from tests.factories import NOON
from tests.jobs.breaking import CELLAR, MINUTE, OFFICE, breaker, claimed, fail, hold, open_it, tick

pytestmark = pytest.mark.django_db


run, refused = command("breakers")


class TestList:
    def test_the_open_ones_come_first_with_their_numbers_and_the_error(self):
        fail(claimed(1), guarded=CELLAR)
        open_it()
        hold(2)
        lines = [line.split() for line in run().splitlines() if "repository:" in line]
        error = ["no", "space", "left", "on", "device"]
        assert lines[0][:4] == ["repository:3", "repository", "office", "open"]
        assert lines[0][-9:] == ["3", "2", "2026-03-02", "12:01:00", *error]
        assert lines[1] == ["repository:4", "repository", "cellar", "closed", "1", "0", *error]

    def test_what_people_and_engines_wrote_cannot_steer_the_terminal(self):
        open_it(guarded=Guarded("repository:5", "evil \x1b[31mred"))
        Breaker.objects.update(last_error="\x1b[2Jwiped\x1b]0;pwn\x07")
        shown = run()
        assert "wiped" in shown
        assert "\x1b" not in shown

    def test_json_has_the_same_facts(self):
        open_it()
        [held] = hold(1)
        tick(NOON + MINUTE)
        [facts] = json.loads(run("--json"))
        assert (facts["key"], facts["state"], facts["trial"], facts["waiting"]) == (OFFICE.key, "on trial", held, 0)
        assert facts["opened_at"] == "2026-03-02T12:00:00Z"


class TestVerbs:
    def test_close_closes_it(self):
        open_it()
        assert "it is closed" in run("close", OFFICE.key)
        assert not breaker().is_open
        assert refused("close", OFFICE.key, code=1)

    def test_probe_brings_the_next_trial(self):
        open_it()
        before = breaker().probe_at
        assert json.loads(run("probe", OFFICE.key, "--json"))["state"] == "open"
        assert breaker().probe_at != before
        assert breaker().is_open

    def test_an_unknown_key_is_refused_with_the_known_ones(self):
        open_it()
        assert "there are repository:3" in refused("close", "repository:99")
