"""The pages of schedules: the form with its plan, actions, and what is refused."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from audit.models import AuditEntry
from jobs.handlers import registry
from jobs.models import BacklogRecord
from jobs.states import Status
from schedules import providers
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record, make_retry_policy
from tests.operations.schedule_forms import form
from tests.schedules.factories import emitter_beside, make_events, make_throttle
from tests.sources.factories import make_assignment, make_policy

pytestmark = pytest.mark.django_db

SCHEDULES = "/admin/schedules/schedule/"


def found(client: Client) -> str:
    """The messages that the next page shows."""
    return " ".join(str(message) for message in client.get(SCHEDULES).context["messages"])


def offered_on_the_page_of(schedule: Schedule, client: Client) -> list[str]:
    """The verbs that have a button there."""
    page = client.get(f"{SCHEDULES}{schedule.pk}/change/").content.decode()
    return [verb for verb in ("trigger", "pause", "resume") if f'{SCHEDULES}{schedule.pk}/{verb}/"' in page]


class TestSaving:
    def test_does_not_set_back_an_emitter_that_goes_on_meanwhile(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        moved_to = timezone.now() + timedelta(days=30)
        schedule = make_events(next_trigger_at=NOON)
        emitter_beside(monkeypatch, moved_to)
        fields = form(endpoint=str(schedule.endpoint_id), event_count="5")
        assert admin_client.post(f"{SCHEDULES}{schedule.pk}/change/", fields).status_code == 302
        schedule.refresh_from_db()
        assert (schedule.next_trigger_at, schedule.event_count) == (moved_to, 5)

    def test_warns_of_a_batch_that_cannot_complete_and_saves_it(self, admin_client: Client) -> None:
        throttle = make_throttle(max_in_flight=50, rate=50.0)
        fields = form(event_count="1000000", window_for="60", throttle=str(throttle.pk))
        assert admin_client.post(f"{SCHEDULES}add/", fields).status_code == 302
        assert Schedule.objects.filter(name="nightly", event_count=1_000_000).exists()
        assert "Cannot complete: 1,000,000 events in 1 min need 16,667 a second" in found(admin_client)

    @pytest.mark.django_db(transaction=True)
    def test_another_retry_policy_is_given_to_what_waits(self, admin_client: Client) -> None:
        schedule = make_events(retry_policy=make_retry_policy(parameters={"base": 3600}))
        failed_at = timezone.now() - timedelta(minutes=1)
        record = make_record(
            Status.WAITING, waiting_for=3, origin=schedule, trigger_at=NOON, failures=1, first_failure_at=failed_at,
            last_failure_at=failed_at, run_after=failed_at + timedelta(hours=1), retry_policy=schedule.retry_policy,
        )  # fmt: skip
        other = make_retry_policy(parameters={"base": 600})
        fields = form(endpoint=str(schedule.endpoint_id), retry_policy=str(other.pk))
        assert admin_client.post(f"{SCHEDULES}{schedule.pk}/change/", fields).status_code == 302
        record.refresh_from_db()
        assert record.run_after == failed_at + timedelta(minutes=10)


class TestThePlan:
    def test_of_what_is_typed_and_not_saved(self, admin_client: Client) -> None:
        schedule = make_events()
        typed = form(endpoint=str(schedule.endpoint_id), name="typed", event_count="777", zone="Europe/Berlin")
        for path in ("preview/", f"{schedule.pk}/preview/"):
            page = admin_client.post(SCHEDULES + path, typed).content.decode()
            assert "Load: typed" in page
            assert "Each batch of 777 events" in page
            assert "Local time is that of Europe/Berlin" in page
        assert Schedule.objects.get().event_count == 100

    def test_a_name_is_text_and_never_markup(self, admin_client: Client) -> None:
        throttle = make_throttle(name="<b>slow</b>", rate=1.0)
        make_events(name="<i>other</i>", throttle=throttle)
        typed = form(endpoint="", name="<script>x</script>", throttle=str(throttle.pk))
        page = admin_client.post(f"{SCHEDULES}preview/", typed).content.decode()
        assert [markup for markup in ("<script>", "<b>slow", "<i>other") if markup in page] == []
        assert "&lt;script&gt;" in page


class TestThatOfAPolicy:
    def test_is_looked_at_here_and_edited_with_its_policy(self, admin_client: Client) -> None:
        policy = make_policy()
        make_assignment(policy)
        path = f"{SCHEDULES}{policy.schedule_id}/"
        page = admin_client.get(f"{path}change/").content.decode()
        assert f"/admin/sources/policy/{policy.pk}/change/" in page
        assert "Each batch of up to 1 event" in page
        assert 'name="_save"' not in page
        assert admin_client.post(f"{path}change/", form(endpoint="")).status_code == 403
        assert admin_client.post(f"{path}delete/", {"post": "yes"}).status_code == 403

    def test_a_new_one_cannot_be_made_here_but_of_another_provider(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        page = admin_client.get(f"{SCHEDULES}add/").content.decode()
        assert 'value="http_callback"' in page
        assert [each for each in ('name="provider"', 'value="backup"') if each in page] == []
        monkeypatch.setitem(providers.known, "tenants", lambda triggers, now: 0)
        monkeypatch.setitem(registry.kinds, "test", registry.kind("test"))
        page = admin_client.get(f"{SCHEDULES}add/").content.decode()
        assert 'value="tenants"' in page
        assert 'value="assignments"' not in page
        fields = form(
            provider="tenants", event_count="", kind="test", endpoint="", window_for="0", stagger="none",
            payload_template="{}",
        )  # fmt: skip
        assert admin_client.post(f"{SCHEDULES}add/", fields).status_code == 302
        assert Schedule.objects.get(name="nightly").provider == "tenants"


class TestActions:
    def test_trigger_now_asks_and_then_puts_a_batch_on_the_backlog(self, admin_client: Client) -> None:
        schedule = make_events()
        path = f"{SCHEDULES}{schedule.pk}/trigger/"
        assert "Trigger now?" in admin_client.get(path).content.decode()
        assert not Trigger.objects.exists()
        admin_client.post(path, {"confirmed": "yes"})
        trigger = Trigger.objects.get(schedule=schedule)
        assert trigger.asked_by == "admin"
        assert BacklogRecord.objects.filter(origin=schedule).count() == 100
        assert "100 events" in found(admin_client)
        note = AuditEntry.objects.get(row_id=str(schedule.pk), verb="did")
        assert note.text.startswith("Trigger now: triggered at ")

    def test_pause_and_resume_from_the_list(self, admin_client: Client) -> None:
        schedules = [make_events(name="a"), make_events(name="b", enabled=False)]
        chosen = {"_selected_action": [schedule.pk for schedule in schedules], "confirmed": "yes"}
        admin_client.post(SCHEDULES, {"action": "pause", **chosen})
        assert not Schedule.objects.filter(enabled=True).exists()
        assert "Pause: b: it was paused before." in found(admin_client)
        admin_client.post(SCHEDULES, {"action": "resume", **chosen})
        assert Schedule.objects.filter(enabled=True, next_trigger_at__isnull=False).count() == 2

    @pytest.mark.parametrize(("is_paused", "offered"), [(True, ["trigger", "resume"]), (False, ["trigger", "pause"])])
    def test_a_page_offers_what_would_do_something(
        self, is_paused: bool, offered: list[str], admin_client: Client
    ) -> None:
        assert offered_on_the_page_of(make_events(enabled=not is_paused), admin_client) == offered
