"""What a schedule may be: each mistake is told beside its field."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from schedules.validation import obstacle_to_deleting, obstacle_to_editing, problems_of

from jobs.states import Status
from schedules.models import Schedule, Trigger
from schedules.verbs import cancel_batch
from tests.factories import NOON, make_record
from tests.schedules.factories import make_endpoint, make_events
from tests.sources.factories import make_policy

pytestmark = pytest.mark.django_db


def schedule(**fields: Any) -> Schedule:
    """A good one of callbacks, not saved."""
    values = {
        "name": "nightly", "cron": "0 3 * * *", "kind": "http_callback", "event_count": 10, "window_for": 3_600,
        "stagger": "even", "payload_template": {"shard": "$number"},
    }  # fmt: skip
    if "endpoint" not in fields:
        values["endpoint"] = make_endpoint()
    return Schedule(**(values | fields))


def test_a_good_one_has_no_problems() -> None:
    good = schedule()
    assert problems_of(good) == {}
    good.full_clean()


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"event_count": None}, "event_count", "is missing"),
        ({"provider": "assignments"}, "event_count", "its batch comes from assignments"),
        ({"provider": "magic", "event_count": None}, "provider", "no provider 'magic' is registered here; there are"),
        ({"provider": "assignments", "event_count": None, "catch_up_for": 60}, "catch_up_for", "leave it empty"),
        ({"cron": "0 0 30 2 *"}, "cron", "never fires"),
        ({"cron": "soon"}, "cron", "has 1 field, not 5"),
        ({"zone": "Europe/Berlinn"}, "zone", "did you mean Europe/Berlin?"),
        ({"payload_template": {"a": "$nobody"}}, "payload_template", "nobody"),
        ({"payload_template": ["$"]}, "payload_template", "$"),
        ({"endpoint": None}, "endpoint", "is missing: where is each HTTP callback delivered?"),
        ({"kind": "sqs_message"}, "endpoint", "hooks is for HTTP callback, and this schedule's kind is sqs_message"),
        ({"kind": "magic", "endpoint": None}, "kind", "no kind 'magic' is registered here; there are"),
        ({"kind": "backup", "endpoint": None}, "kind", "come from a provider"),
        ({"kind": "backup"}, "endpoint", "is not for records of the kind 'backup'"),
        ({"window_for": 0}, "stagger", "needs a window to spread the events over"),
        ({"window_for": 0, "stagger": "none", "late": "drop"}, "late", "needs a window after which an event is late"),
    ],
)
def test_each_mistake_names_its_field(fields: dict[str, Any], field: str, said: str) -> None:
    wrong = schedule(**fields)
    problems = problems_of(wrong)
    assert said in problems[field]
    assert set(problems) <= {field, "endpoint", "kind"}
    with pytest.raises(ValidationError) as caught:
        wrong.full_clean()
    assert field in caught.value.message_dict


@pytest.mark.parametrize(
    "count",
    [
        0,
        1_000_001,
    ],
)
def test_a_count_out_of_range_is_told_once(count: int) -> None:
    with pytest.raises(ValidationError) as caught:
        schedule(event_count=count).full_clean()
    assert list(caught.value.message_dict) == ["event_count"]
    assert len(caught.value.message_dict["event_count"]) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1/hook", "http://169.254.169.254/latest", "ftp://example.com/"])
def test_an_address_that_is_not_allowed_names_the_endpoint(url: str) -> None:
    problems = problems_of(schedule(endpoint=make_endpoint(name="inside", url=url)))
    assert problems["endpoint"].startswith("inside cannot be delivered to: ")


def test_an_address_that_is_allowed_here_is_none(settings: Any) -> None:
    settings.CALLBACKS_ALLOWED = ["127.0.0.0/8"]
    assert problems_of(schedule(endpoint=make_endpoint(url="http://127.0.0.1/hook"))) == {}


class TestAnAddressThatIsNotAllowedHere:
    """As in a shell that lacks the setting of the workers."""

    URL = "http://127.0.0.1/hook"

    @pytest.fixture
    def saved(self) -> Schedule:
        found = schedule(endpoint=make_endpoint(url=self.URL))
        found.save()
        return found

    def test_does_not_stop_an_edit_of_something_else(self, saved: Schedule) -> None:
        saved.cron = "0 4 * * *"
        saved.full_clean()
        saved.enabled = False
        saved.full_clean()

    def test_is_told_of_another_endpoint(self, saved: Schedule) -> None:
        saved.endpoint = make_endpoint(name="other", url=self.URL)
        assert set(problems_of(saved)) == {"endpoint"}

    def test_is_told_of_one_that_is_enabled(self, saved: Schedule) -> None:
        Schedule.objects.update(enabled=False)
        assert set(problems_of(saved)) == {"endpoint"}

    def test_is_told_of_another_kind(self, saved: Schedule) -> None:
        Schedule.objects.update(kind="sqs_message")
        assert set(problems_of(saved)) == {"endpoint"}


def test_all_mistakes_are_told_at_once() -> None:
    wrong = schedule(cron="soon", zone="Mars/Olympus", event_count=None, endpoint=None, window_for=0)
    assert set(problems_of(wrong)) == {"cron", "zone", "event_count", "endpoint", "stagger"}


def test_an_endpoint_beside_an_unknown_provider_is_not_contradicted() -> None:
    assert set(problems_of(schedule(provider="magic", event_count=None))) == {"provider"}


def test_an_endpoint_beside_a_known_provider_is_to_be_left_empty() -> None:
    problems = problems_of(schedule(provider="assignments", event_count=None))
    assert problems == {
        "endpoint": "is not for this schedule: its batch comes from assignments; leave it empty",
    }


def test_the_schedule_of_a_policy_has_no_problems() -> None:
    assert problems_of(make_policy().schedule) == {}


class TestEditingAndDeleting:
    def test_one_that_nothing_uses_can_be_deleted(self) -> None:
        found = make_events()
        make_record(Status.SUCCEEDED, origin=found, trigger_at=NOON)
        make_record(Status.READY)
        assert obstacle_to_deleting(found) == ""
        assert obstacle_to_editing(found) == ""

    @pytest.mark.parametrize("status", [Status.WAITING, Status.READY, Status.RUNNING])
    def test_one_with_unfinished_events_cannot(self, status: Status) -> None:
        found = make_events()
        make_record(status, origin=found, trigger_at=NOON)
        assert obstacle_to_deleting(found) == (
            "nightly cannot be deleted now: 1 of its events is unfinished. Pause it and let them end, or cancel them"
        )
        make_record(status, origin=found, trigger_at=NOON)
        assert "2 of its events are unfinished" in obstacle_to_deleting(found)

    @pytest.mark.parametrize("events", [0, 40], ids=["queued", "half emitted"])
    def test_one_with_an_unemitted_batch_cannot_until_that_is_cancelled(self, events: int) -> None:
        found = make_events()
        trigger = Trigger.objects.create(schedule=found, trigger_at=NOON, events=events)
        assert obstacle_to_deleting(found) == (
            "nightly cannot be deleted now: a batch of it is being emitted or queued. Cancel that batch first"
        )
        cancel_batch(trigger, NOON)
        assert obstacle_to_deleting(found) == ""

    def test_many_are_not_counted_to_the_last(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("schedules.validation.MOST_COUNTED", 2)
        found = make_events()
        for _ in range(4):
            make_record(Status.READY, origin=found, trigger_at=NOON)
        assert "more than 2 of its events are unfinished" in obstacle_to_deleting(found)

    def test_that_of_a_policy_is_edited_and_deleted_with_it(self) -> None:
        policy = make_policy()
        said = f"{policy.schedule} is the schedule of the policy {policy}: edit or delete that"
        assert obstacle_to_editing(policy.schedule) == said
        assert obstacle_to_deleting(policy.schedule) == said
