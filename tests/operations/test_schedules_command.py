"""`manage.py schedules`: what it shows, changes and refuses."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import BacklogRecord
from jobs.states import Status
from schedules.models import Schedule, Trigger
from tests.commands import command
from tests.factories import NOON
from tests.schedules.factories import make_endpoint, make_events, make_throttle
from tests.sources.factories import make_policy

pytestmark = pytest.mark.django_db


run, refused = command("schedules")


def shown(*arguments: str) -> Any:
    return json.loads(run("--json", *arguments))


class TestLooking:
    def test_the_list_has_a_line_for_each(self) -> None:
        make_events(throttle=make_throttle(), event_count=1_000, next_trigger_at=NOON)
        make_events(name="off", enabled=False)
        make_policy()
        message = run()
        for text in ("nightly", "1,000", "1 h", "hooks", "slow (at most 10)", "2026-03-02 12:00:00", "paused"):
            assert text in message, text
        assert [each["name"] for each in shown("list")][:2] == ["nightly", "off"]

    def test_a_long_list_ends_and_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("a", "b", "c"):
            make_events(name=name)
        assert "there are more" not in run()
        with CaptureQueriesContext(connection) as sent:
            assert "there are more: ask with --limit" in run("list", "--limit", "2")
        assert any(each["sql"].endswith('"name" ASC LIMIT 3') for each in sent)  # and not all rows
        monkeypatch.setattr("operations.management.commands.schedules.SHOWN", 2)
        assert "there are more: ask with --limit" in run()
        assert len(shown("list")) == 3
        assert len(shown("list", "--limit", "1")) == 1

    def test_show_has_all_of_one_and_its_next_triggers(self) -> None:
        make_events(zone="Europe/Berlin")
        message = run("show", "nightly")
        assert "payload template" in message
        assert message.count(" 03:00 ") == 10
        assert "Each batch of 100 events takes 1 s at 200 a second: it completes in its window of 1 h" in message
        facts = shown("show", "nightly")
        assert facts["payload_template"] == {"shard": "$number"}
        assert len(facts["next_triggers"]) == 10
        assert facts["next_triggers"][0]["trigger_at_local"].endswith(("03:00:00+01:00", "03:00:00+02:00"))

    def test_plan_draws_the_load_and_says_whether_it_completes(self) -> None:
        make_events(throttle=make_throttle(rate=50.0, max_in_flight=99), event_count=1_000_000, window_for=60)
        message = run("plan", "nightly")
        assert "Load: 1,000,000 in the busiest minute" in message
        assert "! Cannot complete: 1,000,000 events in 1 min need 16,667 a second" in message
        facts = shown("plan", "nightly")
        assert facts["verdict"]["batches_too_late"] == facts["verdict"]["batches"] == 7
        assert facts["pace"] == 50
        assert len(facts["load"]["busiest_minute_of_each_hour"]) == 168
        assert max(facts["load"]["busiest_minute_of_each_hour"]) == facts["load"]["peak"] == 1_000_000

    def test_triggers_lists_what_has_been(self) -> None:
        schedule = make_events()
        assert "has triggered nothing yet" in run("triggers", "nightly")
        run("trigger", "nightly")
        Trigger.objects.create(schedule=schedule, trigger_at=NOON, skipped_for="overlap", finished_at=NOON)
        Trigger.objects.create(schedule=schedule, trigger_at=NOON - timedelta(hours=1))
        BacklogRecord.objects.update(status=Status.SUCCEEDED, waiting_for=None, finished_at=NOON)
        message = run("triggers", "nightly")
        assert "asked for by a user at the command line" in message
        assert "overlap" in message
        found = shown("triggers", "nightly")
        assert [each["state"] for each in found] == ["under way", "skipped", "queued"]
        assert (found[0]["events"], found[0]["succeeded"], found[0]["waiting"]) == (100, 100, 0)
        assert len(shown("triggers", "nightly", "--limit", "1")) == 1
        with pytest.raises(CommandError, match="'-1' is not a number: from 1 to 10,000"):
            run("triggers", "nightly", "--limit", "-1")


class TestAdding:
    def test_a_payload_can_be_read_from_a_file_and_a_batch_that_cannot_complete_is_told(self, tmp_path: Path) -> None:
        make_endpoint()
        make_throttle(max_in_flight=0)
        file = tmp_path / "payload.json"
        file.write_text('{"of": "$count"}')
        payload = f"payload_template=@{file}"
        message = run("add", "n", "--cron", "0 3 * * *", "--endpoint", "hooks", "--throttle", "slow", "--set", payload)
        assert "! No batch begins: the throttle slow is paused" in message
        assert Schedule.objects.get().payload_template == {"of": "$count"}
        assert "/nothing' cannot be read: a part of its path is a file" in refused(
            "set", "n", "--set", f"{payload}/nothing", code=None
        )

    def test_backups_are_made_by_a_policy_instead(self) -> None:
        message = refused("add", "n", "--cron", "0 3 * * *", "--provider", "assignments", "--kind", "backup")
        assert "--provider: assignments are those of a policy" in message
        assert not Schedule.objects.exists()
        make_events()
        assert "make a policy" in refused("set", "nightly", "--provider", "assignments")
        assert Schedule.objects.get().provider == ""


class TestChanging:
    def test_the_changed_fields_are_told_and_a_field_is_emptied(self) -> None:
        make_events(throttle=make_throttle(), catch_up_for=60)
        assert run("set", "nightly", "--window-for", "2h", "--name", "later").startswith(
            "later: changed: name, window_for\n"
        )
        run("set", "later", "--throttle", "", "--catch-up-for", "none")
        assert (Schedule.objects.get().throttle, Schedule.objects.get().catch_up_for) == (None, None)

    def test_pause_and_resume(self) -> None:
        make_events()
        assert "triggers nothing until it is resumed" in run("pause", "nightly")
        assert "was paused before" in run("pause", "nightly")
        assert shown("resume", "nightly")["changed"] is True
        assert "was not paused" in run("resume", "nightly")
        assert Schedule.objects.get().enabled

    def test_trigger_puts_a_batch_on_the_backlog(self) -> None:
        make_events(pk=1, event_count=3, enabled=False)  # none of its events starts at once
        facts = shown("trigger", "nightly")
        assert (facts["events"], facts["asked_by"], facts["waiting"]) == (3, "a user at the command line", 3)
        assert BacklogRecord.objects.count() == 3

    def test_a_policys_is_changed_with_it(self) -> None:
        policy = make_policy()
        name = policy.schedule.name
        for verb, *rest in (
            ("set", "--window-for", "60"),
            ("pause",),
            ("resume",),
            ("cancel", "--yes"),
            ("remove", "--yes"),
        ):
            assert "edit or delete that" in refused(verb, name, *rest)
        assert refused("trigger", name).endswith(f"is the schedule of the policy {name}: use *back up now*")
        assert Schedule.objects.get().enabled


class TestCancelling:
    def test_batches_under_way_and_queued_are_cancelled(self) -> None:
        schedule = make_events(event_count=3)
        run("trigger", "nightly")
        Trigger.objects.create(schedule=schedule, trigger_at=NOON)
        other = make_events(name="other", event_count=2)
        run("trigger", "other")
        message = refused("remove", "nightly", "--yes", code=1)
        assert message.endswith("Cancel that batch first")
        facts = shown("cancel", "nightly", "--yes")
        assert (facts["changed"], facts["batches"], facts["cancelled"]) == (True, 2, 3)
        assert not Trigger.objects.filter(schedule=schedule, finished_at=None).exists()
        assert BacklogRecord.objects.filter(origin=other).unfinished().count() == 2
        assert "none of its batches is under way" in run("cancel", "nightly")
        assert "is removed" in run("remove", "nightly", "--yes")
