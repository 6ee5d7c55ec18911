"""`manage.py events`: what it lists, what it shows, what it refuses."""

import json
from contextlib import suppress
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from delivery.models import Endpoint
from jobs.states import Status, WaitingFor
from tests.factories import NOON
from tests.schedules.event_records import (
    HOUR,
    attempt,
    delivered,
    make_event,
    make_event_schedule,
    make_trigger,
    refused,
)

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("events", *arguments, stdout=output)
    return output.getvalue()


def found(*arguments: str) -> list[int]:
    """The numbers of the events that are listed."""
    output = StringIO()
    with suppress(CommandError):  # that there are none
        call_command("events", *arguments, "--json", stdout=output)
    return [int(facts["event_id"].rsplit("-")[-1]) for facts in json.loads(output.getvalue())]


def refused_for(*arguments: str) -> CommandError:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    return caught.value


class TestList:
    def test_a_line_each_with_when_and_which_answer(self) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        delivered(schedule, 1)
        make_event(schedule, 2, Status.WAITING, waiting_for=WaitingFor.BACKOFF, last_error="it was broken")
        lines = [line.split() for line in run().splitlines() if "20260302T" in line]
        assert lines[1][1:] == [
            f"{schedule.pk}-20260302T120000Z-1", "delivered", "2026-03-02", "12:00:00", "2026-03-02", "12:00:02", "1",
            "s", "200", "123", "ms", "1",
        ]  # fmt: skip
        assert lines[0][2:5] == ["waiting", "for", "backoff"]
        assert lines[0][-3:] == ["it", "was", "broken"]

    def test_json_has_the_same_facts(self) -> None:
        schedule = make_event_schedule(name="nightly")
        make_trigger(schedule)
        event = delivered(schedule, 1)
        [facts] = json.loads(run("--json"))
        assert (facts["id"], facts["schedule"], facts["code"], facts["lag"]) == (event.pk, "nightly", 200, 1.0)
        assert facts["delivered_at"] == "2026-03-02T12:00:02Z"
        assert json.loads(run("list", "--json")) == json.loads(run("--json", "list")) == [facts]

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            (["--state", "delivered"], [2, 1]),
            (["--answer", "5xx"], [3]),
            (["--state", "delivered", "--since", "2026-03-02T12:30:00Z"], [2]),
        ],
    )
    def test_filters(self, filters: list[str], expected: list[int]) -> None:
        schedule, other = make_event_schedule(name="nightly"), make_event_schedule(name="weekly")
        delivered(schedule, 1)
        delivered(schedule, 2, trigger_at=NOON + HOUR)
        refused(schedule, 3)
        refused(other, 4, 404)
        assert found(*filters) == expected

    def test_a_schedule_that_is_gone_is_found_by_the_name_that_its_events_carry(self) -> None:
        gone, other = make_event_schedule(name="gone"), make_event_schedule(name="other")
        delivered(gone, 1), refused(gone, 2), delivered(other, 3)
        gone.delete()
        assert found("--schedule", "gone") == [2, 1]
        assert found("--schedule", "gone", "--state", "delivered") == [1]
        assert refused_for("--schedule", "gone", "--state", "cancelled").returncode == 2

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (
                ["--schedule", "nothing"],
                "there is no schedule 'nothing', nor such an event of one that was; there are nightly",
            ),
            (["--endpoint", "a\0b"], "there is no endpoint"),
            (["--since", "yesterday"], "is no instant; write 24h, 7d, 2026-03-02"),
            (["--limit", "0"], "is not a number from 1 to 10,000"),
        ],
    )
    def test_bad_usage_is_refused_in_words(self, arguments: list[str], told: str) -> None:
        make_event_schedule(name="nightly")
        Endpoint.objects.create(name="hook", url="https://example.com/")
        error = refused_for(*arguments)
        assert told in str(error)
        assert error.returncode in (1, 2)

    def test_what_receivers_say_cannot_steer_the_terminal(self) -> None:
        event = make_event(make_event_schedule(), 1, Status.FAILED, last_error="\x1b[2Jwiped")
        attempt(event, error="\x1b[2Jwiped", status=500)
        for told in (run(), run("show", str(event.pk))):
            assert "wiped" in told
            assert "\x1b" not in told


class TestShow:
    def test_each_attempt_with_code_and_seconds(self) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        event = make_event(schedule, 1, Status.SUCCEEDED, attempt=2)
        attempt(event, 1, error="it answered 503", status=503, seconds=1.5)
        attempt(event, 2, status=204, seconds=0.25)
        lines = [line.split() for line in run("show", str(event.pk)).splitlines()]
        assert ["1", "2026-03-02", "12:00:01", "failed", "503", "1.5", "s", "1", "it", "answered", "503"] in lines
        assert ["2", "2026-03-02", "12:00:02", "succeeded", "204", "250", "ms", "1"] in lines

    def test_by_the_id_of_the_event(self) -> None:
        schedule = make_event_schedule()
        delivered(schedule, 1), delivered(schedule, 11)
        facts = json.loads(run("show", f"{schedule.pk}-20260302T120000Z-1", "--json"))
        assert facts["event_id"] == f"{schedule.pk}-20260302T120000Z-1"
        assert [each["code"] for each in facts["attempts"]] == [200]
        assert facts["payload"]["body"] == {"shard": 1}

    @pytest.mark.parametrize(
        "named",
        [
            "4711",
            "99999-20269999T120000Z-1",
        ],
    )
    def test_one_that_is_not_there_is_told(self, named: str) -> None:
        error = refused_for("show", named)
        assert "there is no event" in str(error)
        assert error.returncode == 1

    @pytest.mark.parametrize(
        "named",
        [
            "abc",
        ],
    )
    def test_what_is_no_id_is_bad_usage(self, named: str) -> None:
        assert refused_for("show", named).returncode == 2


class TestWhereItGoes:
    def test_is_told_without_the_path(self) -> None:
        endpoint = Endpoint.objects.create(name="hook", url="https://example.com/s3cret")
        schedule = make_event_schedule()
        sent_there, by_url = make_event(schedule, 1), make_event(schedule, 2)
        for event, pk in ((sent_there, endpoint.pk), (by_url, None)):
            event.payload |= {"endpoint": pk, "url": endpoint.url}
            event.save()
        shown = [
            run(*asked, str(event.pk)) for event in (sent_there, by_url) for asked in (["show"], ["show", "--json"])
        ]
        assert "s3cret" not in "".join([*shown, run("--json")])
        assert "endpoint name: hook" in shown[0]
        assert "https://example.com:443" in shown[2]
