"""`manage.py schedules`: what it shows, changes and refuses."""

import io
import json
import logging
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from jobs import decisions
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Decision
from jobs.states import Status
from operations.management.base import without_its_log_lines
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record
from tests.jobs.worker_processes import database_url
from tests.operations.planner.plans import emitter_beside, make_endpoint, make_events, make_throttle
from tests.sources.factories import make_policy

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("schedules", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def told(*arguments: str) -> Any:
    return json.loads(run("--json", *arguments))


def refused(*arguments: str, code: int = 2) -> str:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert caught.value.returncode == code, caught.value
    return str(caught.value)


class TestLooking:
    def test_without_schedules_it_says_how_to_add_one(self) -> None:
        assert "schedules add --help" in run()
        assert told("list") == []

    def test_the_list_has_a_line_for_each(self) -> None:
        make_events(throttle=make_throttle(), event_count=1_000, next_trigger_at=NOON)
        make_events(name="off", enabled=False)
        make_policy()
        said = run()
        for text in ("nightly", "1,000", "60 min", "hooks", "slow (at most 10)", "2026-03-02 12:00:00", "paused"):
            assert text in said, text
        assert [each["name"] for each in told("list")][:2] == ["nightly", "off"]

    def test_show_has_all_of_one_and_its_next_triggers(self) -> None:
        make_events(zone="Europe/Berlin")
        said = run("show", "nightly")
        assert "payload template" in said
        assert said.count(" 03:00 ") == 10
        assert "Each batch of 100 events completes in its window of 60 min" in said
        facts = told("show", "nightly")
        assert facts["payload_template"] == {"shard": "$number"}
        assert len(facts["next_triggers"]) == 10
        assert facts["next_triggers"][0]["trigger_at_local"].endswith(("03:00:00+01:00", "03:00:00+02:00"))

    def test_show_has_units(self) -> None:
        make_events(catch_up_for=60, next_trigger_at=NOON)
        lines = [" ".join(line.split()) for line in run("show", "nightly").splitlines()]
        assert {"window for 3600 s", "catch up for 60 s", "next trigger at 2026-03-02 12:00:00 UTC"} <= set(lines)

    def test_a_paused_one_triggers_nothing_next(self) -> None:
        make_events(enabled=False, next_trigger_at=NOON)
        said = run("show", "nightly")
        assert "next trigger at paused" in " ".join(said.split())
        assert "It is paused: none of this happens until it is resumed." in said
        assert told("show", "nightly")["next_trigger_at"] is told("list")[0]["next_trigger_at"] is None

    def test_plan_draws_both_ways_and_says_whether_it_completes(self) -> None:
        make_events(throttle=make_throttle(rate=50.0, max_in_flight=99), event_count=1_000_000, window_for=60)
        said = run("plan", "nightly")
        assert "spread over the window (as it is set): 1,000,000 in the busiest minute" in said
        assert "! Cannot complete: 1,000,000 events in 1 min need 16,667 a second" in said
        facts = told("plan", "nightly")
        assert facts["verdict"]["batches_too_late"] == facts["verdict"]["batches"] == 7
        assert facts["pace"] == 50
        assert len(facts["load"]["all_at_the_trigger"]["busiest_minute_of_each_hour"]) == 168
        assert max(facts["load"]["all_at_the_trigger"]["busiest_minute_of_each_hour"]) == 1_000_000

    def test_plan_of_what_nothing_holds_back_is_json_without_infinity(self) -> None:
        make_events()
        assert "Infinity" not in run("plan", "nightly", "--json")
        assert told("plan", "nightly")["pace"] is None
        Schedule.objects.update(throttle=make_throttle(max_in_flight=0))
        facts = told("plan", "nightly")
        assert (facts["verdict"], facts["pace"]) == (None, 0)

    def test_triggers_lists_what_has_been(self) -> None:
        schedule = make_events()
        assert "has triggered nothing yet" in run("triggers", "nightly")
        run("trigger", "nightly")
        Trigger.objects.create(schedule=schedule, trigger_at=NOON, skipped_for="overlap", finished_at=NOON)
        Trigger.objects.create(schedule=schedule, trigger_at=NOON - timedelta(hours=1))
        BacklogRecord.objects.update(status=Status.SUCCEEDED, waiting_for=None, finished_at=NOON)
        said = run("triggers", "nightly")
        assert "asked for by a person at the command line" in said
        assert "overlap" in said
        found = told("triggers", "nightly")
        assert [each["state"] for each in found] == ["under way", "skipped", "queued"]
        assert (found[0]["events"], found[0]["succeeded"], found[0]["waiting"]) == (100, 100, 0)
        assert len(told("triggers", "nightly", "--limit", "1")) == 1


class TestAdding:
    def test_a_whole_one(self) -> None:
        make_endpoint()
        make_throttle()
        said = run(
            "add", "nightly", "--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--endpoint", "hooks",
            "--count", "1000", "--window", "3600", "--stagger", "even", "--late", "drop", "--overlap", "skip",
            "--catch-up", "86400", "--payload", '{"shard": "$number"}', "--throttle", "slow", "--priority", "-3",
        )  # fmt: skip
        assert said.startswith("nightly: added\nEach batch of 1,000 events takes 1 min 40 s at 10 a second")
        schedule = Schedule.objects.get()
        assert (schedule.kind, schedule.event_count, schedule.window_for, schedule.stagger) == (
            "http_callback", 1_000, 3_600, "even",
        )  # fmt: skip
        assert (schedule.late, schedule.overlap, schedule.catch_up_for, schedule.priority) == (
            "drop",
            "skip",
            86_400,
            -3,
        )
        assert schedule.payload_template == {"shard": "$number"}
        assert schedule.next_trigger_at == schedule.period.next_after(database_clock())

    def test_the_least_of_one_is_plain_cron(self) -> None:
        make_endpoint()
        facts = told("add", "thrice", "--hour", "3,6,9", "--endpoint", "hooks")
        assert (facts["cron"], facts["event_count"], facts["zone"]) == ("0 3,6,9 * * *", 1, "UTC")
        assert facts["plan"]["events"] == 1

    def test_a_payload_can_be_read_from_a_file(self, tmp_path: Path) -> None:
        make_endpoint()
        file = tmp_path / "payload.json"
        file.write_text('{"of": "$count"}')
        run("add", "nightly", "--cron", "0 3 * * *", "--endpoint", "hooks", "--payload", f"@{file}")
        assert Schedule.objects.get().payload_template == {"of": "$count"}
        with pytest.raises(CommandError, match="/nothing' cannot be read: No such file"):
            run("set", "nightly", "--payload", f"@{tmp_path}/nothing")

    def test_a_batch_that_cannot_complete_is_saved_and_told(self) -> None:
        make_endpoint()
        make_throttle(max_in_flight=0)
        said = run("add", "n", "--cron", "0 3 * * *", "--endpoint", "hooks", "--throttle", "slow")
        assert "! Its throttle slow is paused" in said
        assert Schedule.objects.exists()

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ((), "--cron is missing"),
            (("--cron", "0 0 30 2 *"), "--cron: cron '0 0 30 2 *' never fires"),
            (("--cron", "0 3 * * *", "--hour", "3"), "not by both"),
            (("--hour", "25"), "--hour: '25' is no hour"),
            (("--day-of-month", "1 2"), "--day-of-month: day of month '1 2' is more than one field"),
            (("--day-of-month", "30", "--month", "2"), "--day-of-month, --month: cron '* * 30 2 *' never fires"),
            (
                ("--cron", "0 3 * * *", "--zone", "Berlin"),
                "--zone: unknown time zone 'Berlin'; did you mean Europe/Berlin?",
            ),
            (("--cron", "0 3 * * *", "--count", "0"), "--count: '0': at least 1; to stop it, pause it"),
            (("--cron", "0 3 * * *", "--count", "1000001"), "--count: "),
            (("--cron", "0 3 * * *", "--count", "-5"), "--count: '-5': at least 1; to stop it, pause it"),
            (("--cron", "0 3 * * *", "--window", "-1"), "is below 0"),
            (("--cron", "0 3 * * *", "--count", "9" * 30), "is too large"),
            (("--cron", "0 3 * * *", "--count", "many"), "is not a whole number"),
            (("--cron", "0 3 * * *", "--window", "99999999"), "--window: "),
            (("--cron", "0 3 * * *", "--stagger", "even"), "say how long with --window, or choose none"),
            (("--cron", "0 3 * * *", "--stagger", "odd"), "invalid choice: 'odd'"),
            (
                ("--cron", "0 3 * * *", "--late", "drop"),
                "--late: needs a window after which an event is late; say how long with",
            ),
            (("--cron", "0 3 * * *", "--payload", "{"), "no JSON"),
            (("--cron", "0 3 * * *", "--payload", '{"a": "$nobody"}'), "--payload: "),
            (("--cron", "0 3 * * *", "--endpoint", "hoks"), "--endpoint: there is no endpoint 'hoks'; there are hooks"),
            (("--cron", "0 3 * * *", "--throttle", "x"), "--throttle: there is no throttle 'x'; there is none yet"),
            (("--cron", "0 3 * * *", "--kind", "magic"), "--kind: no kind 'magic' is registered here"),
            (("--cron", "0 3 * * *", "--endpoint", ""), "--endpoint: is missing"),
            (("--cron", "0 3 * * *", "--provider", "magic"), "--provider: no provider 'magic'"),
            (("--cron", "0 3 * * *", "--priority", "100001"), "--priority: must lie between"),
            (("--cron", "0 3 * * *", "--frequency", "1"), "unrecognized arguments"),
        ],
    )
    def test_bad_input_is_answered_with_its_option(self, arguments: tuple[str, ...], said: str) -> None:
        make_endpoint()
        wanted = () if "--endpoint" in arguments or "--kind" in arguments else ("--endpoint", "hooks")
        kind = ("--kind", "http_callback") if arguments[-2:] == ("--endpoint", "") else ()
        with pytest.raises(CommandError) as caught:
            run("add", "nightly", *arguments, *wanted, *kind)
        assert said in str(caught.value)
        assert not Schedule.objects.exists()

    def test_a_name_that_is_taken_is_refused(self) -> None:
        make_events()
        said = refused("add", "nightly", "--cron", "0 3 * * *", "--endpoint", "hooks")
        assert "there is one already; change it with `schedules set`" in said
        assert "--name" not in said
        make_events(name="weekly")
        assert refused("set", "weekly", "--name", "nightly") == "--name: there is a schedule 'nightly' already"
        assert refused("add", "n" * 101, "--hour", "3", "--endpoint", "hooks").startswith("NAME: ")

    def test_without_an_endpoint_that_is_what_is_missing(self) -> None:
        said = refused("add", "nightly", "--cron", "0 3 * * *")
        assert said == "--endpoint is missing: where are its events delivered?"
        said = refused("add", "nightly")
        assert "--cron is missing" in said
        assert "--endpoint is missing" in said

    def test_an_unknown_provider_says_nothing_of_the_endpoint(self) -> None:
        make_endpoint()
        said = refused("add", "nightly", "--cron", "0 3 * * *", "--endpoint", "hooks", "--provider", "magic")
        assert said.startswith("--provider: no provider 'magic'")
        assert "--endpoint" not in said

    def test_backups_are_made_by_a_policy_instead(self) -> None:
        said = refused("add", "n", "--cron", "0 3 * * *", "--provider", "assignments", "--kind", "backup")
        assert said.startswith("--provider: ")
        assert said.endswith("make a policy instead")
        assert not Schedule.objects.exists()
        make_events()
        assert "make a policy instead" in refused("set", "nightly", "--provider", "assignments")
        assert Schedule.objects.get().provider == ""


class TestChanging:
    def test_what_is_not_named_stays(self) -> None:
        make_events(throttle=make_throttle(), priority=3)
        said = run("set", "nightly", "--window", "7200", "--name", "later")
        assert said.startswith("later: changed: name, window_for\n")
        schedule = Schedule.objects.get()
        assert (schedule.name, schedule.window_for, schedule.priority, schedule.event_count) == ("later", 7200, 3, 100)
        run("set", "later", "--throttle", "", "--catch-up", "last")
        schedule.refresh_from_db()
        assert (schedule.throttle, schedule.catch_up_for) == (None, None)

    def test_fields_of_the_cron_that_are_not_named_stay(self) -> None:
        make_events(cron="30 3 1 * 1-5")
        said = run("set", "nightly", "--hour", "4")
        assert said.startswith("nightly: changed: cron\ncron: 30 3 1 * 1-5 → 30 4 1 * 1-5\n")
        assert Schedule.objects.get().cron == "30 4 1 * 1-5"
        assert told("set", "nightly", "--day-of-month", "*", "--minute", "15")["cron"] == "15 4 * * 1-5"
        assert "--hour: '25' is no hour" in refused("set", "nightly", "--hour", "25")
        assert "→" not in run("set", "nightly", "--window", "7200")

    def test_a_field_of_a_cron_that_is_none_asks_for_all_of_it(self) -> None:
        make_events(cron="soon")
        assert "say all of it, as --cron '0 3 * * *'" in refused("set", "nightly", "--hour", "4")

    def test_only_an_edit_of_when_moves_the_next_trigger(self) -> None:
        soon = database_clock() + timedelta(days=30)
        make_events(next_trigger_at=soon)
        run("set", "nightly", "--window", "7200", "--cron", "0 3 * * *")
        assert Schedule.objects.get().next_trigger_at == soon
        run("set", "nightly", "--cron", "0 4 * * *")
        schedule = Schedule.objects.get()
        assert schedule.next_trigger_at == schedule.period.next_after(database_clock())

    def test_an_emitter_that_goes_on_meanwhile_is_not_set_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        moved_to = database_clock() + timedelta(days=30)
        make_events(next_trigger_at=NOON)
        emitter_beside(monkeypatch, moved_to)
        run("set", "nightly", "--window", "7200")
        schedule = Schedule.objects.get()
        assert (schedule.next_trigger_at, schedule.window_for) == (moved_to, 7200)

    def test_nothing_named_is_refused(self) -> None:
        make_events()
        assert "say what to change" in refused("set", "nightly")

    def test_pause_and_resume(self) -> None:
        make_events()
        assert "triggers nothing until it is resumed" in run("pause", "nightly")
        assert "was paused before" in run("pause", "nightly")
        assert told("resume", "nightly")["changed"] is True
        assert "was not paused" in run("resume", "nightly")
        assert Schedule.objects.get().enabled

    def test_trigger_puts_a_batch_on_the_backlog(self) -> None:
        make_events(pk=1, event_count=3, enabled=False)  # none of its events starts at once
        facts = told("trigger", "nightly")
        assert (facts["events"], facts["asked_by"], facts["waiting"]) == (3, "a person at the command line", 3)
        assert BacklogRecord.objects.count() == 3

    def test_trigger_answers_without_its_lines_of_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        make_events(event_count=3)
        run("trigger", "nightly")
        assert not [record for record in caplog.records if record.name == "jobs.doing"]
        assert Decision.objects.filter(what="triggered").exists()
        with without_its_log_lines():
            pass
        decisions.doing("triggered", "again")
        assert [record.message for record in caplog.records if record.name == "jobs.doing"]

    def test_a_policys_is_changed_with_it(self) -> None:
        policy = make_policy()
        name = policy.schedule.name
        for arguments in (
            ("set", name, "--window", "60"),
            ("pause", name),
            ("resume", name),
            ("cancel", name, "--yes"),
            ("remove", name, "--yes"),
        ):
            assert "edit or delete that" in refused(*arguments)
        assert refused("trigger", name).endswith(f"is the schedule of the policy {name}: use *back up now*")
        assert Schedule.objects.get().enabled


class TestCancelling:
    def test_a_batch_whose_events_have_ended_is_none(self) -> None:
        make_events(event_count=3)
        run("trigger", "nightly")
        BacklogRecord.objects.update(status=Status.SUCCEEDED, waiting_for=None, finished_at=NOON)
        assert Trigger.objects.get().finished_at is None  # no worker has seen it yet
        assert "no batch of it is under way" in run("cancel", "nightly")

    def test_batches_under_way_and_queued_are_cancelled(self) -> None:
        schedule = make_events(event_count=3)
        run("trigger", "nightly")
        Trigger.objects.create(schedule=schedule, trigger_at=NOON)
        other = make_events(name="other", event_count=2)
        run("trigger", "other")
        said = refused("remove", "nightly", "--yes", code=1)
        assert said.endswith("Cancel that batch first: `manage.py schedules cancel nightly`")
        facts = told("cancel", "nightly", "--yes")
        assert (facts["changed"], facts["batches"], facts["cancelled"]) == (True, 2, 3)
        assert not Trigger.objects.filter(schedule=schedule, finished_at=None).exists()
        assert BacklogRecord.objects.filter(origin=other).unfinished().count() == 2
        assert "no batch of it is under way" in run("cancel", "nightly")
        assert "is deleted" in run("remove", "nightly", "--yes")

    def test_asks_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        make_events(event_count=3)
        run("trigger", "nightly")
        assert "Cancel 1 batch of nightly? Nobody is there to ask: add --yes" in refused("cancel", "nightly")
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", lambda question: "n")
        assert "nothing was changed" in run("cancel", "nightly")
        assert BacklogRecord.objects.unfinished().count() == 3
        monkeypatch.setattr("builtins.input", lambda question: "y")
        assert "1 batch cancelled" in run("cancel", "nightly")
        assert BacklogRecord.objects.unfinished().count() == 0


class TestRemoving:
    def test_asks_first(self) -> None:
        make_events()
        said = refused("remove", "nightly")
        assert "with them launch and lag of what it delivered. Nobody is there to ask: add --yes" in said
        assert Schedule.objects.exists()
        assert "is deleted" in run("remove", "nightly", "--yes")
        assert not Schedule.objects.exists()

    def test_a_person_who_says_no_keeps_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        make_events()
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        for answer in ("n", ""):
            monkeypatch.setattr("builtins.input", lambda question, answer=answer: answer)
            assert "nothing was changed" in run("remove", "nightly")
        assert Schedule.objects.exists()
        monkeypatch.setattr("builtins.input", lambda question: "Y")
        run("remove", "nightly")
        assert not Schedule.objects.exists()

    def test_is_refused_while_events_are_unfinished(self) -> None:
        make_record(Status.READY, origin=make_events(), trigger_at=NOON)
        assert "1 of its events is unfinished" in refused("remove", "nightly", "--yes", code=1)
        assert Schedule.objects.exists()


class TestBadUsage:
    @pytest.mark.parametrize(
        "verb", ["show", "set", "trigger", "pause", "resume", "cancel", "remove", "triggers", "plan"]
    )
    def test_an_unknown_name_is_answered_with_the_known_ones(self, verb: str) -> None:
        assert "there is no schedule 'nightli', nor any other" in refused(verb, "nightli")
        make_events()
        assert refused(verb, "nightli") == "there is no schedule 'nightli'; the schedules are: nightly"
        assert "there is no schedule" in refused(verb, "a\0b")

    def test_a_database_that_does_not_answer_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*args: Any, **kwargs: Any) -> Any:
            raise OperationalError("refused") from psycopg.OperationalError("refused")

        monkeypatch.setattr(Schedule.objects, "select_related", away)
        assert "does not answer: refused" in refused("list")

    def test_a_row_that_was_stored_past_the_forms_is_told(self) -> None:
        make_events(cron="soon")
        assert "has 1 field, not 5" in refused("plan", "nightly")
        assert "soon" in run("list")


@pytest.mark.slow
def test_a_process_ends_with_2_and_a_sentence_and_no_traceback() -> None:
    argv = (sys.executable, "manage.py", "schedules", "plan", "no such schedule")
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "backupsched.settings"}
    done = subprocess.run(argv, cwd=root, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "there is no schedule 'no such schedule'" in done.stderr
    assert "Traceback" not in done.stderr
