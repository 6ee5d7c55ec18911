"""The reasons why a schedule did not fire at a time, and its next trigger."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from audit.models import AuditEntry, Verb
from jobs.clock import database_clock
from operations.backlog.reason import Code
from operations.trigger_reasons import explain_schedule
from schedules.models import Schedule, Trigger
from schedules.triggers import record_due_triggers
from tests.commands import command
from tests.factories import NOON, make_schedule, make_worker

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
AT_TWO = datetime(2026, 3, 2, 2, tzinfo=UTC)


def nightly(**fields: Any) -> Schedule:
    """A schedule that fires at two each night, made a month ago."""
    schedule = make_schedule(**{"name": "nightly", "cron": "0 2 * * *", "provider": "", "event_count": 3} | fields)
    AuditEntry.objects.update(at=NOON - timedelta(days=30))
    return schedule


def why(schedule: Schedule, at: datetime | None = AT_TWO, now: datetime = NOON) -> list[tuple[Code, str]]:
    return [(each.code, each.text) for each in explain_schedule(schedule, now, at).reasons]


def test_one_that_fired_says_when_it_was_emitted_and_what_came_of_it() -> None:
    schedule = nightly()
    Trigger.objects.create(
        schedule=schedule, trigger_at=AT_TWO, seen_at=AT_TWO + HOUR, emitted_at=AT_TWO + HOUR, events=3
    )
    [(code, text)] = why(schedule)
    assert code == Code.FIRED
    assert "it was seen 1 h late, and put 3 records on the backlog, which are not all done" in text


def test_one_that_was_skipped_or_waits_says_why() -> None:
    schedule = nightly()
    row = Trigger.objects.create(schedule=schedule, trigger_at=AT_TWO, seen_at=AT_TWO)
    assert [code for code, _ in why(schedule)] == [Code.OVERLAP]
    assert any(text.startswith("1 trigger waits for an earlier batch to end, since") for _, text in why(schedule, None))
    Trigger.objects.filter(pk=row.pk).update(skipped_for="an earlier batch had not ended", finished_at=AT_TWO)
    assert why(schedule)[0][1].endswith("emitted nothing: an earlier batch had not ended")


def test_an_instant_at_which_its_cron_has_no_trigger_names_those_around_it() -> None:
    schedule = nightly(cron="0 2 * * 0", zone="Europe/Berlin")
    [(code, text)] = why(schedule)
    assert code == Code.NO_TRIGGER
    assert "`0 2 * * 0` in Europe/Berlin has no trigger at 2026-03-02 02:00:00 UTC (Mon 03:00 in Europe/Berlin)" in text
    assert "the last one before came at 2026-03-01 01:00:00 UTC (Sun 02:00 in Europe/Berlin)" in text


def test_of_an_instant_to_come_it_says_whether_there_is_a_trigger() -> None:
    schedule = nightly(cron="0 2 * * 0", zone="Europe/Berlin")
    sunday = datetime(2026, 3, 29, 1, tzinfo=UTC)  # the clocks leave out two o'clock
    [(code, text)] = why(schedule, sunday)
    assert code == Code.NOT_DUE
    assert text.startswith("its trigger at 2026-03-29 01:00:00 UTC (Sun 03:00 in Europe/Berlin) comes in 26 d")
    [(code, text)] = why(schedule, sunday + HOUR)
    assert code == Code.NO_TRIGGER
    assert "the last one before comes at 2026-03-29 01:00:00 UTC" in text
    [(code, text)] = why(schedule, NOON + HOUR)
    assert "the last one before came at 2026-03-01 01:00:00 UTC" in text
    Schedule.objects.update(cron="61 * * * *", enabled=False)
    assert [code for code, _ in why(Schedule.objects.get(), sunday)] == [Code.DISABLED, Code.UNREADABLE]


@pytest.mark.parametrize(
    ("cron", "zone", "at"),
    [
        ("0 2 * * 0", "Europe/Berlin", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("0 2 * * *", "UTC", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("0 0 1 1 *", "America/New_York", datetime(9999, 6, 1, tzinfo=UTC)),
    ],
)
def test_at_the_end_of_the_calendar_it_says_that_nothing_is_known(cron: str, zone: str, at: datetime) -> None:
    [(code, text)] = why(nightly(cron=cron, zone=zone), at)
    assert code == Code.UNREADABLE
    assert text.startswith("its triggers around then are not known: ")


def test_at_the_beginning_of_the_calendar_nothing_is_kept() -> None:
    assert [code for code, _ in why(nightly(), datetime(1, 1, 1, tzinfo=UTC))] == [Code.NO_TRIGGER]


def test_one_that_was_missed_while_nothing_ticked_quotes_the_log() -> None:
    schedule = nightly(next_trigger_at=AT_TWO - timedelta(days=2), catch_up_for=0)
    record_due_triggers(NOON)
    [(code, text)] = why(schedule)
    assert code == Code.SKIPPED
    assert "it does not catch up" in text
    Schedule.objects.update(next_trigger_at=AT_TWO)
    assert [code for code, _ in why(Schedule.objects.get(), AT_TWO + timedelta(days=0))] == [Code.SKIPPED]


def test_what_was_edited_since_is_taken_back_by_the_audit() -> None:
    schedule = nightly(cron="0 5 * * *")
    edit = {"about": "schedules.schedule", "row_id": str(schedule.pk), "who": "ann", "via": "web"}
    change = AuditEntry.objects.create(
        **edit, verb=Verb.CHANGED, before={"cron": "0 2 * * *"}, after={"cron": "0 5 * * *"}
    )
    AuditEntry.objects.filter(pk=change.pk).update(at=NOON - HOUR)
    found = why(schedule)
    assert found[0] == (Code.EDITED, "until ann changed it at 2026-03-02 11:00:00 UTC, its cron was 0 2 * * *")
    assert "it should have fired at 2026-03-02 02:00:00 UTC" in found[1][1]
    off = AuditEntry.objects.create(**edit, verb=Verb.CHANGED, before={"enabled": True}, after={"enabled": False})
    AuditEntry.objects.filter(pk=off.pk).update(at=AT_TWO - HOUR)
    on = AuditEntry.objects.create(**edit, verb=Verb.CHANGED, before={"enabled": False}, after={"enabled": True})
    AuditEntry.objects.filter(pk=on.pk).update(at=AT_TWO + HOUR)
    assert why(schedule)[0] == (Code.DISABLED, "it was disabled then, since 2026-03-02 01:00:00 UTC by ann")
    AuditEntry.objects.filter(verb=Verb.CREATED).update(at=AT_TWO + HOUR)
    assert why(schedule) == [(Code.NO_TRIGGER, "it was made at 2026-03-02 03:00:00 UTC, after that")]


def test_without_a_time_says_when_it_fires_next_and_what_keeps_it() -> None:
    schedule = nightly(enabled=False, next_trigger_at=AT_TWO)
    assert [code for code, _ in why(schedule, None)] == [
        Code.DISABLED, Code.UNSERVED, Code.NOT_PLANNED, Code.NOT_DUE
    ]  # fmt: skip
    make_worker(heartbeat_at=NOON)
    Schedule.objects.update(enabled=True, cron="0 25 * * *")
    assert [code for code, _ in why(Schedule.objects.get(), None)] == [Code.UNREADABLE]


def test_the_command_suggests_near_names_and_says_what_an_instant_looks_like() -> None:
    ask, refused = command("schedules")
    nightly()
    assert "not_due: its next trigger comes at" in ask("explain", "nightly")
    assert "before" in ask("explain", "nightly", "--at", f"{database_clock() - 200 * 24 * HOUR:%Y-%m-%dT%H:%M}")
    assert "did you mean 'nightly'?" in refused("explain", "nightli")
    assert "--at 'noon' is not an instant" in refused("explain", "nightly", "--at", "noon")


def test_the_api_says_the_same(admin_client: Client) -> None:
    schedule = nightly()
    Trigger.objects.create(schedule=schedule, trigger_at=AT_TWO, seen_at=AT_TWO, emitted_at=AT_TWO, events=3)
    address = f"/api/schedules/{schedule.pk}/explain"
    found = admin_client.get(address, {"at": AT_TWO.isoformat()}).json()
    assert (found["runnable"], found["reasons"][0]["code"]) == (False, "fired")
    assert admin_client.get(address).json()["reasons"]
    assert admin_client.get(address, {"at": "soon"}).status_code == 422
