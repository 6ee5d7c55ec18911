"""Valid schedules: each mistake is named next to its field."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from delivery.models import Endpoint
from jobs.states import Status
from schedules import providers
from schedules.editing import Schedules
from schedules.models import Schedule, Trigger
from schedules.obstacles import obstacle_to_deleting, obstacle_to_editing
from schedules.verbs import cancel_batch
from tests.factories import NOON, make_record
from tests.schedules.factories import make_endpoint, make_events
from tests.sources.factories import make_policy

pytestmark = pytest.mark.django_db


def filled(**fields: Any) -> Schedule:
    """A good one of callbacks, not saved."""
    values = {
        "name": "nightly", "cron": "0 3 * * *", "event_count": 10, "window_for": 3_600, "stagger": "even",
        "payload_template": {"shard": "$number"}, "endpoint": "hooks",
    }  # fmt: skip
    if not Endpoint.objects.filter(name="hooks").exists():
        make_endpoint()
    service = Schedules()
    row = service.new()
    service.fill(row, values | fields)
    return row


def problems_of(**fields: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as caught:
        filled(**fields)
    return caught.value.message_dict


def test_a_good_one_is_of_the_kind_of_its_endpoint() -> None:
    assert filled().kind == "http_callback"


@pytest.mark.parametrize(
    ("fields", "field", "error"),
    [
        ({"event_count": None}, "event_count", "is missing"),
        ({"event_count": 0}, "event_count", "greater than or equal to 1"),
        ({"event_count": 1_000_001}, "event_count", "less than or equal to 1000000"),
        ({"provider": "assignments"}, "provider", "make a policy"),
        ({"provider": "test"}, "event_count", "its batch comes from test"),
        ({"provider": "magic", "event_count": None}, "provider", "no provider 'magic' is registered here; there are"),
        ({"provider": "test", "event_count": None, "catch_up_for": 60}, "catch_up_for", "leave it empty"),
        ({"provider": "test", "event_count": None}, "endpoint", "its batch comes from test; leave it empty"),
        ({"cron": "0 0 30 2 *"}, "cron", "never fires"),
        ({"cron": "soon"}, "cron", "has 1 field, not 5"),
        ({"cron": ""}, "cron", "at least 1 character"),
        ({"cron": {"hour": "25"}}, "cron", "'25' is not a valid hour"),
        ({"zone": "Europe/Berlinn"}, "zone", "did you mean Europe/Berlin?"),
        ({"payload_template": {"a": "$unknown"}}, "payload_template", "unknown"),
        ({"payload_template": ["$"]}, "payload_template", "$"),
        ({"payload_template": None}, "payload_template", "must not be null"),
        ({"endpoint": None}, "endpoint", "is missing: where is each HTTP callback delivered?"),
        ({"kind": "sqs_message"}, "endpoint", "hooks is for HTTP callback, and this schedule's kind is sqs_message"),
        ({"kind": "magic", "endpoint": None}, "kind", "no kind 'magic' is registered here; there are"),
        ({"kind": "backup", "endpoint": None}, "kind", "come from a provider"),
        ({"kind": "backup"}, "endpoint", "is not for records of the kind 'backup'"),
        ({"window_for": 0}, "stagger", "needs a window to spread the events over"),
        ({"window_for": 0, "stagger": "none", "late": "drop"}, "late", "needs a window after which an event is late"),
    ],
)
def test_each_mistake_names_its_field(
    fields: dict[str, Any], field: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(providers.known, "test", lambda wanted, now: 0)
    found = problems_of(**fields)
    assert error in found[field][0]
    assert set(found) <= {field, "endpoint", "kind"}


def test_a_mistake_in_a_part_of_a_cron_names_the_part() -> None:
    assert "cron.hours" in problems_of(cron={"hours": "1"})
    assert "cron.hour" in problems_of(cron={"hour": -1})


def test_all_mistakes_are_told_at_once() -> None:
    wrong = problems_of(cron="soon", zone="Mars/Olympus", event_count=None, endpoint="none such", window_for=0)
    assert set(wrong) == {"cron", "zone", "event_count", "endpoint", "stagger"}


@pytest.mark.parametrize("url", ["http://127.0.0.1/hook", "http://169.254.169.254/latest", "ftp://example.com/"])
def test_an_address_that_is_not_allowed_names_the_endpoint(url: str) -> None:
    make_endpoint(name="inside", url=url)
    assert problems_of(endpoint="inside")["endpoint"][0].startswith("inside cannot be delivered to: ")


class TestAnAddressThatIsNotAllowedHere:
    """The environment of a shell that lacks the setting of the workers."""

    @pytest.mark.parametrize(
        ("is_enabled", "change", "is_refused"),
        [
            (True, {"cron": "0 4 * * *"}, False),
            (True, {"enabled": False}, False),
            (True, {"endpoint": "other"}, True),
            (False, {"enabled": True}, True),
        ],
    )
    def test_stops_an_edit_of_where_it_goes_and_that_it_goes(
        self, is_enabled: bool, change: dict[str, Any], is_refused: bool
    ) -> None:
        saved = make_events(endpoint=make_endpoint(url="http://127.0.0.1/hook"), enabled=is_enabled)
        make_endpoint(name="other", url="http://127.0.0.1/hook")
        if is_refused:
            with pytest.raises(ValidationError, match=r"endpoint.*cannot be delivered to"):
                Schedules().edit(saved, change)
        else:
            Schedules().edit(saved, change)


class TestEditingAndDeleting:
    def test_one_that_nothing_uses_can_be_deleted(self) -> None:
        found = make_events()
        make_record(Status.SUCCEEDED, origin=found, trigger_at=NOON)
        make_record(Status.READY)
        assert obstacle_to_deleting(found) == ""
        assert obstacle_to_editing(found) == ""

    def test_one_with_unfinished_events_cannot_and_many_are_not_counted_to_the_last(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("schedules.obstacles.MOST_COUNTED", 2)
        found, texts = make_events(), []
        for status in (Status.WAITING, Status.READY, Status.RUNNING):
            make_record(status, origin=found, trigger_at=NOON)
            texts.append(obstacle_to_deleting(found))
        assert texts == [
            f"nightly cannot be deleted now: {what} unfinished. Pause it and let them end, or cancel them"
            for what in ("1 of its events is", "2 of its events are", "more than 2 of its events are")
        ]

    @pytest.mark.parametrize("events", [0, 40], ids=["queued", "half emitted"])
    def test_one_with_an_unemitted_batch_cannot_until_that_is_cancelled(self, events: int) -> None:
        found = make_events()
        trigger = Trigger.objects.create(schedule=found, trigger_at=NOON, events=events)
        assert obstacle_to_deleting(found) == (
            "nightly cannot be deleted now: one of its batches is being emitted or queued. Cancel that batch first"
        )
        cancel_batch(trigger, NOON)
        assert obstacle_to_deleting(found) == ""

    def test_that_of_a_policy_is_edited_and_deleted_with_it(self) -> None:
        policy = make_policy()
        text = f"{policy.schedule} is the schedule of the policy {policy}: edit or delete that"
        assert obstacle_to_editing(policy.schedule) == text
        assert obstacle_to_deleting(policy.schedule) == text
