"""Schedules over the API: edited, triggered, paused, planned; a policy's is left to its policy."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from audit.models import AuditEntry
from delivery.models import Endpoint
from schedules import verbs
from schedules.models import Schedule, Trigger
from tests.api.asking import Program, fields_of, made, make_user, problem_of
from tests.factories import NOON, make_schedule, make_throttle
from tests.sources.factories import make_policy

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint.objects.create(name="hooks", url="https://example.com/hook")


@pytest.fixture
def body(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": "nightly", "cron": "0 3 * * *", "endpoint": endpoint.name, "event_count": 10, "window_for": 3600,
        "stagger": "even", "payload_template": {"shard": "$number"},
    }  # fmt: skip


@pytest.fixture
def schedule(program: Program, body: dict[str, Any]) -> Schedule:
    return Schedule.objects.get(pk=made(program.post("schedules", body))["id"])


class TestEditing:
    def test_a_new_one_has_its_next_trigger_which_another_cron_moves_and_another_name_does_not(
        self, schedule: Schedule, program: Program
    ) -> None:
        assert schedule.next_trigger_at is not None
        assert schedule.next_trigger_at > datetime.now(UTC)
        assert (schedule.kind, schedule.provider, schedule.event_count) == ("http_callback", "", 10)
        Schedule.objects.update(next_trigger_at=NOON)
        program.patch(f"schedules/{schedule.pk}", {"name": "renamed"})
        assert Schedule.objects.get().next_trigger_at == NOON
        program.patch(f"schedules/{schedule.pk}", {"cron": "0 4 * * *"})
        assert Schedule.objects.get().next_trigger_at != NOON

    def test_that_of_a_policy_is_told_where_it_is_edited(self, program: Program) -> None:
        policy = make_policy()
        path = f"schedules/{policy.schedule_id}"
        assert program.get(path).json()["provider"] == "assignments"
        asked = (
            program.patch(path, {"name": "x"}), program.delete(path), program.post(f"{path}/pause"),
            program.post(f"{path}/resume"),
        )  # fmt: skip
        for answer in asked:
            assert "policy" in problem_of(answer, 409)["detail"]
        assert problem_of(program.post(f"{path}/trigger"), 409)["hint"] == "do what `detail` says"


class TestActions:
    def test_a_trigger_by_hand_emits_once_a_key_and_is_found_where_the_answer_says(
        self, schedule: Schedule, program: Program
    ) -> None:
        answer = program.post(f"schedules/{schedule.pk}/trigger", Idempotency_Key="k")
        shown = made(answer)
        assert (shown["state"], shown["events"], shown["asked_by"]) == ("under way", 10, program.user.username)
        found = program.get(answer.headers["Location"]).json()
        assert found["id"] == shown["id"]
        assert sum(found["progress"].values()) == 10
        assert AuditEntry.objects.get(verb="did").text == "Triggered."
        assert made(program.post(f"schedules/{schedule.pk}/trigger", Idempotency_Key="k")) == shown
        assert Trigger.objects.count() == 1

    def test_a_second_one_in_the_same_second_is_a_conflict(
        self, schedule: Schedule, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(verbs, "database_clock", lambda: NOON)
        assert program.post(f"schedules/{schedule.pk}/trigger").status_code == 201
        problem_of(program.post(f"schedules/{schedule.pk}/trigger"), 409)

    def test_it_is_paused_and_resumed(self, schedule: Schedule, program: Program) -> None:
        etag = program.get(f"schedules/{schedule.pk}").headers["ETag"]
        for verb, enabled in (("pause", False), ("pause", False), ("resume", True)):
            answer = program.post(f"schedules/{schedule.pk}/{verb}")
            assert (answer.status_code, answer.json()["enabled"]) == (200, enabled)
            assert (answer.json()["next_trigger_at"] is not None) == enabled
        assert answer.headers["ETag"] == etag
        assert AuditEntry.objects.filter(after__enabled=False).count() == 1

    def test_a_batch_is_cancelled(self, schedule: Schedule, program: Program) -> None:
        trigger = program.post(f"schedules/{schedule.pk}/trigger").json()["id"]
        assert program.post(f"triggers/{trigger}/cancel").json() == {"cancelled": 10}
        assert program.get(f"triggers/{trigger}").json()["progress"]["cancelled"] == 10
        assert program.post(f"triggers/{trigger}/cancel").json() == {"cancelled": 0}


class TestLookingAhead:
    def test_the_preview_tells_triggers_and_their_first_and_last_event(
        self, schedule: Schedule, program: Program
    ) -> None:
        query = {"count": 2, "from": "2026-03-28T12:00:00+01:00"}
        program.patch(f"schedules/{schedule.pk}", {"zone": "Europe/Berlin", "cron": "30 2 * * *"})
        first, second = program.get(f"schedules/{schedule.pk}/preview", **query).json()["triggers"]
        assert (first["trigger_at"], first["trigger_at_local"]) == (
            "2026-03-29T01:00:00Z", "2026-03-29T03:00:00+02:00",
        )  # fmt: skip
        assert first["events"] == 10
        instants = [datetime.fromisoformat(first[name]) for name in ("trigger_at", "first_at", "last_at", "closes_at")]
        assert instants == sorted(instants)
        assert first["closes_at"] == "2026-03-29T02:00:00Z"
        assert second["trigger_at"] == "2026-03-30T00:30:00Z"

    @pytest.mark.parametrize("query", [{"count": 0}, {"form": "x"}])
    def test_a_bad_question_is_refused(self, query: dict[str, Any], schedule: Schedule, program: Program) -> None:
        assert list(fields_of(program.get(f"schedules/{schedule.pk}/preview", **query))) == list(query)

    def test_the_plan_says_whether_a_batch_completes_in_its_window(self, schedule: Schedule, program: Program) -> None:
        slow = make_throttle(1)
        program.patch(f"schedules/{schedule.pk}", {"throttle": slow.name, "event_count": 100_000, "window_for": 60})
        shown = program.get(f"schedules/{schedule.pk}/plan").json()
        assert shown["messages"][0]["level"] == "bad"
        assert shown["verdict"]["batch_takes"] > 60
        assert len(shown["load"]["busiest_minute_of_each_hour"]) == 168

    def test_one_that_is_not_saved_is_planned_as_well(self, program: Program, body: dict[str, Any]) -> None:
        shown = program.post("schedules/plan", body)
        assert (shown.status_code, shown.json()["events"]) == (200, 10)
        assert "cron" in fields_of(program.post("schedules/plan", body | {"cron": "0 0 30 2 *"}))
        assert not Schedule.objects.exists()


class TestTriggers:
    def test_they_are_found_by_schedule_state_and_time(self, program: Program) -> None:
        schedule = make_schedule()
        facts = {
            "queued": {}, "under way": {"emitted_at": NOON}, "finished": {"emitted_at": NOON, "finished_at": NOON},
            "skipped": {"skipped_for": "busy", "finished_at": NOON},
        }  # fmt: skip
        for hours, (state, fields) in enumerate(facts.items()):
            row = Trigger.objects.create(schedule=schedule, trigger_at=NOON + timedelta(hours=hours), **fields)
            [found] = program.get("triggers", state=state, schedule=schedule.pk).json()["items"]
            assert (found["id"], found["state"]) == (row.pk, state)
        query = {"since": "2026-03-02T13:00:00Z", "before": "2026-03-02T15:00:00Z"}
        assert [each["state"] for each in program.get("triggers", **query).json()["items"]] == ["finished", "under way"]

    def test_a_person_who_may_look_at_schedules_or_records_may_look(self) -> None:
        for permission in ("view_schedule", "view_trigger", "view_backlogrecord"):
            assert Program(make_user(permission), ("read",)).get("triggers").status_code == 200
        problem_of(Program(make_user("view_throttle"), ("read",)).get("triggers"), 403)
