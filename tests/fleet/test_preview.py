"""`manage.py policies preview`: the coming periods of a policy, as text and as JSON; its plan; and what it refuses."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from jobs.clock import database_clock
from schedules.capacity import check
from schedules.capacity_report import messages
from schedules.cron import Period
from sources.models import Assignment, Policy, Repository, Source
from sources.planning import previews
from tests.commands import command
from tests.schedules.factories import make_events, make_throttle
from tests.sources.factories import MONDAY, make_assignment, make_policy, make_source

pytestmark = pytest.mark.django_db

NIGHTS = [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]


def nightly(name: str = "laptops", **fields: Any) -> Policy:
    """Each day at local midnight in Berlin, in the nights."""
    values = {"cron": "0 0 * * *", "zone": "Europe/Berlin", "window": NIGHTS}
    policy = make_policy(**(values | fields))
    policy.schedule.name = name
    policy.schedule.save()
    return policy


run, refused = command("policies preview")
of_events, _ = command("schedules preview")


def facts(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return found


def test_what_is_not_kept_of_its_sources_is_told_beforehand(admin_client: Client) -> None:
    repository = Repository.objects.create(name="bucket", location="photos", remote={"type": "s3"})
    policy = nightly(repository=repository)
    assert facts("laptops")["not_kept"] == {}
    for kind in ("postgresql", "sftp", "sftp"):
        make_assignment(policy, make_source(kind=kind))
    lost = facts("laptops")["not_kept"]
    assert {kind: "empty folders" in each for kind, each in lost.items()} == {"postgresql": False, "sftp": True}
    assert f"not kept of sftp sources: {'; '.join(lost['sftp'])}" in " ".join(run("laptops").split())
    assert admin_client.get("/api/policies/laptops/preview").json()["not_kept"] == lost
    page = admin_client.get(f"/admin/sources/policy/{policy.pk}/change/").content.decode()
    assert f"PostgreSQL database: not kept are {escape('; '.join(lost['postgresql']))}." in page
    source = policy.assignments.earliest("pk").source
    assert (
        escape("; ".join(lost["postgresql"]))
        in admin_client.get(f"/admin/sources/source/{source.pk}/change/").content.decode()
    )


class TestPeriodsOfAPolicy:
    def test_ten_are_shown_from_now_on_by_the_clock_of_the_database(self) -> None:
        found = previews.preview(nightly())
        assert len(found) == 10
        assert found[0].begins_at > database_clock()
        assert found[0].begins_at == Period("0 0 * * *", "Europe/Berlin").next_after(database_clock())

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"cron": "0 0 30 2 *"}, "never fires"),
            ({"excluded_dates": ["02-30"]}, "excluded date 1"),
        ],
    )
    def test_a_row_that_was_written_past_the_forms_is_named(self, fields: dict[str, Any], text: str) -> None:
        policy = nightly(**fields)
        with pytest.raises(ValueError, match=text):
            previews.preview(policy, 1, MONDAY)
        assert text in refused("laptops", "--from", "2026-03-02")


def test_in_json_instants_stand_in_utc_and_by_the_local_clock_with_lengths() -> None:
    nightly(cron="0 12 * * *")
    assert facts("laptops", "--count", 1, "--from", "2026-03-28T00:00") == {
        "policy": "laptops",
        "enabled": True,
        "cron": "0 12 * * *",
        "zone": "Europe/Berlin",
        "window": NIGHTS,
        "excluded_dates": [],
        "holidays": [],
        "not_kept": {},
        "periods": [
            {
                "begins_at": "2026-03-28T11:00:00+00:00",
                "ends_at": "2026-03-29T10:00:00+00:00",
                "begins_at_local": "2026-03-28T12:00:00+01:00",
                "ends_at_local": "2026-03-29T12:00:00+02:00",
                "seconds": 82800.0,
                "openings": [
                    {
                        "opens_at": "2026-03-28T21:00:00+00:00",
                        "closes_at": "2026-03-29T04:00:00+00:00",
                        "opens_at_local": "2026-03-28T22:00:00+01:00",
                        "closes_at_local": "2026-03-29T06:00:00+02:00",
                        "seconds": 25200.0,
                    }
                ],
                "warning": "",
            }
        ],
    }


class TestTheTable:
    def test_a_line_an_opening_with_local_time_utc_and_length(self) -> None:
        nightly(cron="0 12 * * *")
        lines = run("laptops", "--count", 1, "--from", "2026-03-28T12:00").splitlines()
        assert lines[0] == "laptops: `0 12 * * *` in Europe/Berlin"
        [line] = [line for line in lines if "22:00" in line]
        assert line.strip().split("  ")[0] == "Sat 2026-03-28 12:00"
        assert "03-28 11:00" in line
        assert "23 h" in line
        assert "Sat 03-28 22:00 – Sun 03-29 06:00" in line
        assert "Sat 03-28 21:00 – Sun 03-29 04:00" in line
        assert line.endswith("7 h")

    def test_a_period_without_an_opening_says_why(self) -> None:
        nightly(window=[], excluded_dates=["2026-03-02"])
        text = run("laptops", "--count", 1, "--from", "2026-03-02")
        assert "its openings fall on excluded dates; the next opening is at 2026-03-03 00:00" in text

    def test_the_next_holidays_are_named(self) -> None:
        nightly(window=[], excluded_dates=[{"holidays": "DE", "subdivision": "BY"}])
        text = run("laptops", "--count", 10, "--from", "2026-12-30")
        assert "Fri 2027-01-01 New Year's Day, Wed 2027-01-06 Epiphany" in " ".join(text.split())
        found = facts("laptops", "--count", 4, "--from", "2026-12-30")["holidays"]
        assert (len(found), found[0]) == (10, {"date": "2027-01-01", "name": "New Year's Day"})

    def test_a_name_cannot_steer_the_terminal(self) -> None:
        nightly("lap\x1b[31mtops")
        assert "\x1b" not in run("lap\x1b[31mtops")


@pytest.mark.parametrize(
    ("cron", "written", "begins_at"),
    [
        ("0 0 * * *", "2026-03-02T00:00+00:00", "2026-03-02T23:00:00+00:00"),
        ("0 0 * * *", "2026-03-02T04:00+05:00", "2026-03-01T23:00:00+00:00"),
        ("0 0 * * *", "2026-03-02", "2026-03-01T23:00:00+00:00"),
        ("0 * * * *", "2026-03-29T02:30", "2026-03-29T01:00:00+00:00"),  # does not exist: the end of the gap
    ],
)
def test_the_start_is_read_with_its_offset_or_else_in_the_zone_of_the_policy(
    cron: str, written: str, begins_at: str
) -> None:
    nightly(cron=cron)
    assert facts("laptops", "--count", 1, "--from", written)["periods"][0]["begins_at"] == begins_at


def test_bad_usage_is_refused_with_what_is_right() -> None:
    nightly("servers")
    nightly("laptops")
    assert refused("labtops") == "there is no policy 'labtops'; did you mean 'laptops'?"
    for written in ("tomorrow", "1774648800"):
        message = refused("laptops", f"--from={written}")
        assert f"--from {written!r} is not an instant" in message
        assert "2026-03-28T22:00" in message
    assert refused("laptops", "--count=0") == "0 periods cannot be shown; ask for 1 to 1000"


class TestAScheduleOfEvents:
    """The same of a schedule of events, by `schedules preview`."""

    def test_json_has_the_first_and_the_last_event_of_each_batch_and_the_verdict(self) -> None:
        make_events(zone="Europe/Berlin", throttle=make_throttle(rate=1.0))
        found = json.loads(of_events("nightly", "--count", 2, "--from", "2026-03-28T00:00", "--json"))
        assert (found["schedule"], found["event_count"], found["window_for"]) == ("nightly", 100, 3600)
        winter, summer = found["batches"]
        assert winter["trigger_at"] == "2026-03-28T02:00:00+00:00"
        assert winter["closes_at_local"] == "2026-03-28T04:00:00+01:00"
        assert summer["trigger_at"] == "2026-03-29T01:00:00+00:00"
        assert winter["trigger_at"] <= winter["first_at"] < winter["last_at"] < winter["closes_at"]
        assert winter["first_at"] < "2026-03-28T02:01" < "2026-03-28T02:58" < winter["last_at"]
        text = {each["text"]: each["level"] for each in found["messages"]}
        assert (
            text["Each batch of 100 events takes 1 min 40 s at 1 a second: it completes in its window of 1 h."]
            == "good"
        )


def test_the_plan_of_a_policy_knows_its_units_and_its_window() -> None:
    policy = make_policy(cron="0 9 * * *", window=[{"days": "mon-fri", "start": "22:00", "end": "22:01"}])
    for _ in range(3):
        make_assignment(policy)
    found = check(policy.schedule, MONDAY)
    assert (found.demand.events, found.pace) == (3, 16 / found.demand.seconds_each)
    assert "it completes in its window of 1 min" in messages(found)[0].text
    more = Source.objects.bulk_create(Source(name=f"more {n}", kind="local", path="/srv") for n in range(1000))
    Assignment.objects.bulk_create(Assignment(policy=policy, source=source) for source in more)
    assert messages(check(policy.schedule, MONDAY))[0].text.startswith(
        "Cannot complete: up to 1,003 events in 1 min need"
    )
