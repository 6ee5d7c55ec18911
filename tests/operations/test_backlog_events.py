"""`manage.py backlog list` and `show` of events: what was delivered, when and with which answer."""

import json
from contextlib import suppress
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from delivery.models import Endpoint
from jobs.states import Status, WaitingFor
from tests.commands import command
from tests.factories import NOON, make_record
from tests.schedules import event_records
from tests.schedules.event_records import HOUR, attempt, delivered, make_event, make_event_schedule, make_trigger

run, refused = command("backlog")
pytestmark = pytest.mark.django_db


def found(*arguments: str) -> list[int]:
    """The numbers of the events that are listed."""
    output = StringIO()
    with suppress(CommandError):  # that there are none
        call_command("backlog", "list", *arguments, "--json", stdout=output)
    return [int(facts["subject"].rsplit("-")[-1]) for facts in json.loads(output.getvalue())]


class TestList:
    def test_a_line_each_with_when_and_which_answer(self) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        delivered(schedule, 1, last_error="it was broken before")
        make_event(schedule, 2, Status.WAITING, waiting_for=WaitingFor.BACKOFF, last_error="it was broken")
        lines = [line.split() for line in run("list").splitlines() if "20260302T" in line]
        assert lines[1][1:] == [
            f"{schedule.pk}-20260302T120000Z-1", "succeeded", "2026-03-02", "12:00:00", "2026-03-02", "12:00:02", "1",
            "s", "200", "123", "ms", "1",
        ]  # fmt: skip
        assert lines[0][2:5] == ["waiting", "for", "backoff"]
        assert lines[0][-3:] == ["it", "was", "broken"]
        *_, facts = json.loads(run("list", "--json"))
        assert json.loads(run("--json", "list"))[-1] == facts
        assert facts["finished_at"] == "2026-03-02T12:00:02Z"
        assert (facts["delivery"]["schedule"], facts["delivery"]["code"]) == (schedule.name, 200)

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            (["--status", "succeeded"], [2, 1]),
            (["--status", "succeeded", "--since", "2026-03-02T12:30:00Z"], [2]),
            (["--status", "succeeded", "--status", "failed", "--schedule", "nightly"], [2, 3, 1]),
            (["--schedule", "weekly"], [4]),
            (["--endpoint", "hook"], [4]),
            (["--answer", "5xx", "--events"], [3]),
        ],
    )
    def test_filters(self, filters: list[str], expected: list[int]) -> None:
        schedule, other = make_event_schedule(name="nightly"), make_event_schedule(name="weekly")
        endpoint = Endpoint.objects.create(name="hook", url="https://example.com/")
        delivered(schedule, 1)
        delivered(schedule, 2, trigger_at=NOON + HOUR)
        event_records.refused(schedule, 3)
        last = event_records.refused(other, 4, 404)
        last.payload |= {"endpoint": endpoint.pk}
        last.save()
        make_record(kind="backup", subject="no-event-9", inserted_at=NOON)
        assert found(*filters) == expected

    def test_a_schedule_that_is_gone_is_found_by_the_name_that_its_events_carry(self) -> None:
        gone, other = make_event_schedule(name="gone"), make_event_schedule(name="other")
        delivered(gone, 1), event_records.refused(gone, 2), delivered(other, 3)
        gone.delete()
        assert found("--schedule", "gone") == [2, 1]
        assert found("--schedule", "gone", "--status", "succeeded") == [1]
        refused("list", "--schedule", "gone", "--status", "cancelled")

    def test_bad_usage_is_refused_in_words(self) -> None:
        make_event_schedule(name="nightly")
        Endpoint.objects.create(name="hook", url="https://example.com/")
        for arguments, message in (
            (
                ["--schedule", "nothing"],
                "no schedule 'nothing', nor an event of a deleted one with that name; there is nightly",
            ),
            (["--endpoint", "nothing"], "there is no endpoint 'nothing'; there is hook"),
            (["--since", "yesterday"], "is not an instant; write 24h, 7d, 2026-03-02"),
            (["--limit", "0"], "is not a number: from 1 to 10,000"),
        ):
            assert message in refused("list", *arguments, code=None)

    def test_what_receivers_say_cannot_steer_the_terminal(self) -> None:
        event = make_event(make_event_schedule(), 1, Status.FAILED, last_error="\x1b[2Jwiped")
        attempt(event, error="\x1b[2Jwiped", status=500)
        for text in (run("list"), run("show", event.pk)):
            assert "wiped" in text
            assert "\x1b" not in text


class TestShow:
    def test_by_the_id_of_the_event_with_code_and_seconds_of_each_attempt(self) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        event = make_event(schedule, 1, Status.SUCCEEDED, attempt=2)
        delivered(schedule, 11)
        attempt(event, 1, error="it answered 503", status=503, seconds=1.5)
        attempt(event, 2, status=204, seconds=0.25)
        text = run("show", event.subject)
        assert "status 503, seconds 1.5; it answered 503" in text
        assert "status 204, seconds 0.25" in text
        facts = json.loads(run("show", event.subject, "--json"))
        assert (facts["id"], [each["number"] for each in facts["attempts"]]) == (event.pk, [1, 2])
        assert facts["payload"]["body"] == {"shard": 1}
        for named in ("4711", "99999-20269999T120000Z-1"):
            assert f"there is no record {named}" in refused("show", named, code=1)

    def test_where_it_goes_is_told_without_the_path(self) -> None:
        endpoint = Endpoint.objects.create(name="hook", url="https://example.com/s3cret")
        schedule = make_event_schedule()
        sent_there, by_url = make_event(schedule, 1), make_event(schedule, 2)
        for event, pk in ((sent_there, endpoint.pk), (by_url, None)):
            event.payload |= {"endpoint": pk, "url": endpoint.url}
            event.save()
        shown = [run("show", *options, event.pk) for event in (sent_there, by_url) for options in ((), ("--json",))]
        assert "s3cret" not in "".join([*shown, run("list", "--json")])
        assert "hook" in shown[0]
        assert "https://example.com:443" in shown[2]
