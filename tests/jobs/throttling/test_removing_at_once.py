"""A throttle is removed at the moment in which a record comes under it: one of both comes first."""

from concurrent.futures import Future
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from audit.models import AuditEntry
from jobs import backlog
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord, Throttle
from jobs.states import Status
from jobs.throttles import lane_of
from operations import throttles
from schedules import emitter
from schedules.models import Schedule
from tests.factories import NOON, claim_ready, install_presets, make_lane, make_record, make_schedule, make_throttle
from tests.people import staff
from tests.threads import a_lock_is_waited_for, another_connection, beside, impatience
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

AT_THIS_MOMENT = "just being put on the backlog"


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    install_presets()
    monkeypatch.setitem(registry.kinds, "event", Kind("event"))


@pytest.fixture
def throttle() -> Throttle:
    return make_throttle(5)


def remove(throttle: Throttle) -> None:
    throttles.remove([throttle])


def refusal(throttle: Throttle) -> str:
    """The refusal of another session that removes it now; empty if it was removed."""

    def try_to() -> str:
        try:
            remove(throttle)
        except throttles.InUse as error:
            return str(error)
        return ""

    return beside(try_to).result(PATIENCE)


def enter(throttle: Throttle) -> None:
    make_record(lane=make_lane(throttle))


def enqueue(throttle: Throttle) -> None:
    backlog.enqueue("event", [("one", {})], lane=make_lane(throttle))


def retry(throttle: Throttle) -> None:
    backlog.retry([BacklogRecord.objects.get().pk])


class TestARecordThatComesFirst:
    @pytest.mark.parametrize("come", [enter, enqueue, retry])
    def test_into_a_lane_that_is_there_keeps_the_throttle_and_no_other(self, throttle: Throttle, come: Any) -> None:
        other = make_throttle(1)
        make_lane(other)
        lane = make_lane(throttle)
        if come is retry:
            make_record(Status.FAILED, lane=lane)
        with transaction.atomic():
            come(throttle)
            beside(lambda: enter(throttle)).result(PATIENCE)  # two fill one lane at the same moment
            assert AT_THIS_MOMENT in refusal(throttle)
            assert refusal(other) == ""
        assert "2 are ready" in refusal(throttle)
        with pytest.raises(throttles.InUse):
            throttles.remove([free := make_throttle(1), throttle])
        assert set(Throttle.objects.all()) == {free, throttle}
        with another_connection() as emitting, impatience():
            emitting.execute("SELECT FROM jobs_lane FOR KEY SHARE")
            assert len(claim_ready(1)) == 1
            emitting.execute("SELECT FROM jobs_throttle FOR UPDATE")
            assert lane_of([throttle.pk]) == lane  # a lane that is known locks no throttle

    def test_into_a_new_lane_keeps_it_too(self, throttle: Throttle) -> None:
        other = make_throttle(1)
        with transaction.atomic():
            make_record(lane=make_lane(throttle, other))
            removing = beside(lambda: remove(throttle))
            eventually(a_lock_is_waited_for)
        with pytest.raises(throttles.InUse, match="1 are ready"):
            removing.result(PATIENCE)
        assert Throttle.objects.count() == 2

    def test_as_part_of_a_batch_keeps_it_also_when_its_schedule_names_it_no_more(self, throttle: Throttle) -> None:
        make_lane(throttle)
        values = {"kind": "event", "provider": "", "event_count": 2, "cron": "0 12 * * *", "next_trigger_at": NOON}
        schedule = make_schedule(**values, throttle=throttle)
        with transaction.atomic():
            emitter.emit_triggers(NOON)
            assert AT_THIS_MOMENT in refusal(throttle)
        Schedule.objects.filter(pk=schedule.pk).update(throttle=None)
        assert "2 are ready" in refusal(throttle)


class TestARemovalThatComesFirst:
    @pytest.mark.parametrize("is_new", [False, True])
    def test_is_waited_for_by_a_record_that_needs_a_lane(self, throttle: Throttle, is_new: bool) -> None:
        if not is_new:
            make_lane(throttle)
        with transaction.atomic():
            remove(throttle)
            entering: Future[None] = beside(lambda: enter(throttle))
            eventually(a_lock_is_waited_for)
        entering.result(PATIENCE)
        assert not Throttle.objects.exists()

    def test_is_waited_for_by_a_retry(self, throttle: Throttle) -> None:
        record = make_record(Status.FAILED, lane=make_lane(throttle))
        with transaction.atomic():
            remove(throttle)
            retrying = beside(lambda: backlog.retry([record.pk]))
            eventually(a_lock_is_waited_for)
        assert retrying.result(PATIENCE).ready == [record.pk]


class TestTheWaysToRemove:
    """Between the page and the button a record has come: each way asks again behind the locks."""

    @pytest.mark.parametrize("many", [False, True])
    def test_the_admin(
        self, throttle: Throttle, admin_client: Client, monkeypatch: pytest.MonkeyPatch, many: bool
    ) -> None:
        enter(throttle)
        asked, answers = throttles.obstacle_to_removing, iter(["look"])
        monkeypatch.setattr(throttles, "obstacle_to_removing", lambda live: "" if next(answers, "") else asked(live))
        address = "/admin/jobs/throttle/" + ("" if many else f"{throttle.pk}/delete/")
        answer = {"post": "yes", "action": "delete_selected", "_selected_action": [throttle.pk]}
        page = admin_client.post(address, answer, follow=True).content.decode()
        assert ("none was deleted." if many else "look again.") in page
        assert "1 are ready. Let them end or cancel them first." in page
        assert "uccessfully deleted" not in page
        assert not AuditEntry.objects.filter(verb="deleted").exists()
        assert Throttle.objects.exists()

    def test_the_api(self, throttle: Throttle) -> None:
        make_lane(throttle)
        person = staff("delete_throttle")
        with another_connection() as emitting:
            emitting.execute("SELECT FROM jobs_lane FOR KEY SHARE")
            answer = person.delete(f"/api/throttles/{throttle.pk}")
            assert answer.status_code == 409
            assert AT_THIS_MOMENT in answer.json()["detail"]
        assert person.delete(f"/api/throttles/{throttle.pk}").status_code == 204
