"""A throttle that unfinished records name is not deleted: they would continue unthrottled."""

from typing import Any

import pytest
from django.test import Client

from jobs.models import BacklogRecord, Throttle
from jobs.states import Status
from operations import throttles
from tests.factories import make_lane, make_record, make_throttle
from tests.people import staff

pytestmark = pytest.mark.django_db


def delete(throttle: Throttle) -> Any:
    return staff("delete_throttle").delete(f"/api/throttles/{throttle.pk}")


@pytest.mark.parametrize("status", [Status.WAITING, Status.READY, Status.RUNNING])
def test_the_api_refuses_in_words_while_a_record_is_unfinished(status: Status) -> None:
    throttle, other = make_throttle(1), make_throttle(2)
    make_record(status, lane=make_lane(throttle, other))
    for each in (throttle, other):
        answer = delete(each)
        assert answer.status_code == 409
        assert f"{each.name}: of the records that name it 1 " in answer.content.decode()
    assert Throttle.objects.count() == 2
    BacklogRecord.objects.all().delete()
    make_record(Status.SUCCEEDED, lane=make_lane(throttle))
    make_record(lane=make_lane(other))
    assert delete(throttle).status_code == 204


def test_what_waits_behind_all_that_is_counted_holds_it_too(admin_client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(throttles, "BOUND", 2)
    throttle = make_throttle(1)
    for _ in range(4):
        make_record(Status.WAITING)
    last = make_record(Status.WAITING, lane=make_lane(throttle))
    BacklogRecord.objects.filter(pk=last.pk).update(run_after="2099-01-01T00:00Z")
    in_the_admin = admin_client.post(f"/admin/jobs/throttle/{throttle.pk}/delete/", {"post": "yes"})
    for answer in (delete(throttle), in_the_admin):
        assert "of the records that name it some are unfinished" in answer.content.decode()
    assert Throttle.objects.exists()
