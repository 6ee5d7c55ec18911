"""django-q2 calls whatever function a row names. Attacks on that, each by a way that was open once."""

import logging
from pathlib import Path

import pytest
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import Failure, OrmQ, Schedule, Success
from django_q.scheduler import scheduler
from django_q.tasks import async_task

from operations.periodic_broker import ALLOWED
from tests.people import staff

pytestmark = pytest.mark.django_db(transaction=True)

EVERY_RIGHT = [
    f"{verb}_{model}"
    for verb in ("add", "change", "delete", "view")
    for model in ("schedule", "success", "failure", "ormq")
]


def a_success(func: str, *args: object) -> Success:
    now = timezone.now()
    return Success.objects.create(id="a" * 32, name="x", func=func, args=args, success=True, started=now, stopped=now)


@pytest.mark.parametrize("table", ["schedule", "success", "failure", "ormq"])
def test_staff_with_every_permission_on_the_periodic_tasks_gets_no_page_of_them(table):
    client = staff(*EVERY_RIGHT)
    assert client.get(f"/admin/django_q/{table}/").status_code == 403
    form = {"name": "x", "func": "os.system", "args": "'id'", "schedule_type": "O", "repeats": -1}
    assert client.post("/admin/django_q/schedule/add/", form).status_code == 403
    assert not Schedule.objects.exists()


def test_a_superuser_sees_them_and_repeats_or_deletes_none(admin_client):
    done = a_success("os.system", "id")
    page = admin_client.get("/admin/django_q/success/")
    assert page.status_code == 200
    form = {"action": "resubmit_task", "_selected_action": [done.pk]}
    assert b"resubmit" not in admin_client.post("/admin/django_q/success/", form, follow=True).content
    assert admin_client.post(f"/admin/django_q/success/{done.pk}/delete/", {"post": "yes"}).status_code == 403
    assert not OrmQ.objects.exists()
    assert Success.objects.exists()
    for table in ("schedule", "failure", "ormq"):
        assert admin_client.get(f"/admin/django_q/{table}/").status_code == 200


def test_the_cluster_is_never_handed_a_function_that_is_no_periodic_task(caplog):
    Schedule.objects.create(name="attack", func="os.system", args="'id'", schedule_type=Schedule.ONCE)
    broker = get_broker()
    scheduler(broker=broker)
    assert OrmQ.objects.count() == 1
    with caplog.at_level(logging.ERROR):
        assert not broker.dequeue()
    assert not OrmQ.objects.exists()
    refused = Failure.objects.get()
    assert refused.result == "refused: 'os.system' is not a periodic task of this installation"
    assert refused.result in caplog.text


@pytest.mark.parametrize("way", [{"hook": "os.system"}, {"chain": [("os.system", ("id",))]}])
def test_nor_one_that_hangs_on_a_periodic_task_nor_a_function_itself(way):
    async_task("jobs.periodic.prune", broker=get_broker(), **way)
    assert not get_broker().dequeue()
    assert Failure.objects.get().func == "os.system"
    async_task(Path("/nowhere").rmdir, broker=get_broker())
    assert not get_broker().dequeue()


def test_the_periodic_tasks_themselves_are_handed_over():
    for name in sorted(ALLOWED):
        async_task(name, broker=get_broker())
        assert len(get_broker().dequeue() or []) == 1
        OrmQ.objects.all().delete()
