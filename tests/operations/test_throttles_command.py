"""`manage.py throttles`."""

import json

import pytest

from jobs.models import Throttle
from jobs.states import Status
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

    def test_json_has_the_same(self, hooks):
        assert json.loads(run("list", "--json")) == [{
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


def test_an_unknown_one_is_refused():
    assert refused("pause", "hoks") == "there is no throttle 'hoks'; there is none yet"
    assert "there is no throttle" in refused("pause", "a\0b")


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

    def test_is_refused_unasked_while_it_is_in_use(self, hooks, monkeypatch):
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", lambda question: pytest.fail(question))
        ready(hooks, 3)
        assert refused("remove", "hooks", code=1).startswith("hooks: of the records that name it 3 are ready. Let them")
        assert Throttle.objects.exists()
