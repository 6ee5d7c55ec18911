"""`manage.py throttles`."""

import json

import psycopg
import pytest
from django.core.management import CommandError
from django.db.utils import OperationalError

from jobs.models import Throttle
from jobs.states import Status
from operations import throttles
from tests.commands import command
from tests.factories import make_lane, make_record, make_schedule
from tests.jobs.throttling.rated import ready

pytestmark = pytest.mark.django_db


run, refused = command("throttles", with_errors=True)


@pytest.fixture
def hooks() -> Throttle:
    return Throttle.objects.create(name="hooks", max_in_flight=5, rate=2, burst=10)


class TestList:
    def test_without_any_it_says_so(self):
        assert run() == "There are no throttles: `manage.py throttles add NAME --max-in-flight N` makes one.\n"
        assert json.loads(run("--json")) == []

    def test_has_the_live_numbers_and_steers_no_terminal(self, hooks):
        Throttle.objects.create(name="asleep \x1b[31mred", max_in_flight=0)
        ready(hooks, 3)
        make_record(Status.RUNNING, lane=make_lane(hooks))
        *_, asleep, line = (" ".join(line.split()) for line in run().splitlines())
        assert asleep == "asleep [31mred paused 0 of 0 0 0"
        assert line == "hooks open 1 of 5 3 0 2 a second, burst 10 10.0 now"

    @pytest.mark.parametrize("asked", [["--json"], ["list", "--json"]])
    def test_json_has_the_same(self, asked, hooks):
        assert json.loads(run(*asked)) == [{
            "id": hooks.pk, "name": "hooks", "max_in_flight": 5, "paused": False, "rate": 2, "burst": 10,
            "in_flight": 0, "ready": 0, "waiting": 0, "tokens": 10, "next_token_in": 0, "at_least": [],
            "paused_until": None, "paused_why": "",
        }]  # fmt: skip


class TestSet:
    def test_changes_what_is_given_and_nothing_else(self, hooks):
        assert "hooks" in run("set", "hooks", "--max-in-flight", "7")
        hooks.refresh_from_db()
        assert (hooks.max_in_flight, hooks.rate, hooks.burst) == (7, 2, 10)
        [facts] = json.loads(run("set", "hooks", "--rate", "0.5", "--burst", "3", "--json"))
        assert (facts["max_in_flight"], facts["rate"], facts["burst"], facts["tokens"]) == (7, 0.5, 3, 3)
        assert "with a burst of 2 a worker begins 40 a second at most, not 500" in run(
            "set", "hooks", "--rate", "500", "--burst", "2"
        )
        run("set", "hooks", "--rate", "none", "--burst", "none")
        hooks.refresh_from_db()
        assert (hooks.max_in_flight, hooks.rate, hooks.burst) == (7, None, None)

    def test_to_nothing_in_flight_says_that_this_means_paused(self, hooks):
        ready(hooks, 3)
        message = run("set", "hooks", "--max-in-flight", "0")
        assert "hooks: 0 means paused: none of its records begins, 3 are ready; running ones continue" in message

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--max-in-flight", "-1"), "nothing was saved:\n--max-in-flight: must be greater than or equal to 0"),
            (("--max-in-flight", "many"), "--max-in-flight: must be a whole number"),
            (("--rate", "nan"), "--rate: must be a finite number"),
            (("--rate", "fast"), "--rate: must be a number"),
            (("--set", "rate"), "--set: 'rate' is not FIELD=JSON"),
            (("--set", "rate=x"), "--set: rate: not JSON"),
        ],
    )
    def test_to_a_bad_value_is_refused_with_its_name(self, hooks, arguments, message):
        assert message in refused("set", "hooks", *arguments, code=None)
        hooks.refresh_from_db()
        assert (hooks.max_in_flight, hooks.rate, hooks.burst) == (5, 2, 10)


def test_a_paused_one_lets_nothing_through_until_it_is_resumed(hooks):
    assert "paused" in run("pause", "hooks")
    assert Throttle.objects.get().max_in_flight == 0
    for number in ("0", "-1"):  # in the words of the API
        problem = "--max-in-flight: must be greater than or equal to 1"
        assert problem in refused("resume", "hooks", "--max-in-flight", number)
    [facts] = json.loads(run("resume", "hooks", "--max-in-flight", "8", "--json"))
    assert (facts["max_in_flight"], facts["paused"]) == (8, False)


@pytest.mark.parametrize("verb", ["pause", "resume --max-in-flight 3", "set --rate 1", "show", "remove --yes"])
def test_an_unknown_one_is_refused_with_the_name_that_was_meant(hooks, verb):
    verb, *rest = verb.split()
    assert refused(verb, "hoks", *rest) == "there is no throttle 'hoks'; did you mean 'hooks'?"
    hooks.delete()
    assert refused(verb, "hoks", *rest) == "there is no throttle 'hoks'; there is none yet"
    assert "there is no throttle" in refused(verb, "a\0b", *rest)


def test_show_has_its_numbers_and_the_schedules_that_name_it(hooks):
    Throttle.objects.create(name="other", max_in_flight=0)
    make_schedule(name="nightly", throttle=hooks)
    ready(hooks, 3)
    message = run("show", "hooks")
    assert "other" not in message
    assert message.splitlines()[-2].split()[:6] == ["hooks", "open", "0", "of", "5", "3"]
    assert message.splitlines()[-1] == "schedules: nightly"
    facts = json.loads(run("show", "hooks", "--json"))
    assert (facts["name"], facts["max_in_flight"], facts["schedules"]) == ("hooks", 5, ["nightly"])
    run("pause", "other")
    assert "other: 0 means paused" in run("show", "other")
    assert "schedules: none" in run("show", "other")


class TestRemove:
    def test_deletes_what_nothing_names_once_it_was_asked(self, hooks, monkeypatch):
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", lambda question: answer)
        make_record(Status.SUCCEEDED, lane=make_lane(hooks))
        answer = "n"
        assert run("remove", "hooks") == "nothing was changed\n"
        answer = "y"
        assert run("remove", "hooks") == "hooks is removed.\n"
        Throttle.objects.create(name="hooks", max_in_flight=1)
        assert json.loads(run("remove", "hooks", "--yes", "--json")) == {"removed": ["hooks"]}

    @pytest.mark.parametrize("yes", [[], ["--yes"]])
    @pytest.mark.parametrize("schedules", [0, 7])
    def test_is_refused_unasked_while_schedules_or_unfinished_records_name_it(self, schedules, yes, hooks, monkeypatch):
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", lambda question: pytest.fail(question))
        for number in range(schedules):
            make_schedule(name=f"nightly {number}", throttle=hooks)
        ready(hooks, 3)
        reason = "hooks: of the records that name it 3 are ready. Let them"
        if schedules:
            reason = "hooks is used by the schedules nightly 0, nightly 1, "
        message = refused("remove", "hooks", *yes, code=1)
        assert message.startswith(reason)
        assert not schedules or "nightly 4 and 2 more: give them another throttle first" in message
        assert Throttle.objects.exists()

    def test_without_a_terminal_to_ask_at_says_what_to_do(self, hooks, monkeypatch):
        monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
        with pytest.raises(
            CommandError, match=r"Remove the throttle hooks\? There is no terminal.*: add --yes"
        ) as caught:
            run("remove", "hooks")
        assert caught.value.returncode == 2
        assert Throttle.objects.exists()


def test_a_database_that_is_away_is_told_without_a_traceback(monkeypatch):
    def away(*_: object) -> None:
        raise OperationalError("refused") from psycopg.OperationalError("refused")

    monkeypatch.setattr(throttles, "live", away)
    assert "does not answer: refused" in refused()
