"""What an operator does in the admin: retry, cancel, pause, resume. Only with the permission, only after a question."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from jobs import backlog, conf
from jobs.models import BacklogRecord, PausedQueue
from jobs.states import FINISHED, UNFINISHED, Status
from tests.factories import build_record, make_record, make_worker

pytestmark = pytest.mark.django_db

RECORDS = "/admin/jobs/backlogrecord/"
QUEUES = "/admin/jobs/pausedqueue/"


@pytest.fixture
def operator(client: Client) -> Client:
    """Somebody who may look at records and change what becomes of them."""
    user = User.objects.create_user("operator", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_backlogrecord", "change_backlogrecord"]))
    client.force_login(user)
    return client


def statuses(*records: BacklogRecord) -> list[Status]:
    found = dict(BacklogRecord.objects.values_list("pk", "status"))
    return [Status(found[record.pk]) for record in records]


def choose(action: str, *records: BacklogRecord, **fields: Any) -> dict[str, Any]:
    return {"action": action, "_selected_action": [record.pk for record in records], **fields}


def hidden_fields(page: str) -> dict[str, list[str]]:
    """The fields of the question's form, as a browser would send them."""
    [form] = [part for part in page.split("<form")[1:] if 'name="confirmed"' in part]
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form.split("</form>")[0]):
        fields.setdefault(name, []).append(value)
    return fields


class TestFromTheList:
    def test_cancelling_asks_first_and_says_how_many(self, operator: Client) -> None:
        records = [make_record(), make_record(), make_record(Status.RUNNING), make_record()]
        page = operator.post(RECORDS, choose("cancel", *records[:3])).content.decode()
        assert "Cancel: 3 records (2 ready, 1 running)?" in page
        assert statuses(*records) == [Status.READY, Status.READY, Status.RUNNING, Status.READY]

    def test_the_answer_yes_cancels_what_was_chosen_and_nothing_else(self, operator: Client) -> None:
        records = [make_record(), make_record(Status.RUNNING), make_record(Status.FAILED), make_record()]
        question = operator.post(RECORDS, choose("cancel", *records[:3])).content.decode()
        page = operator.post(RECORDS, hidden_fields(question), follow=True).content.decode()
        assert statuses(*records) == [Status.CANCELLED, Status.RUNNING, Status.FAILED, Status.READY]
        assert BacklogRecord.objects.get(pk=records[1].pk).cancel_requested_at is not None
        assert "Cancel: 1 cancelled, 1 told to stop, 1 had ended before." in page

    def test_retrying_asks_as_well_and_tells_what_goes_on_instead(self, operator: Client) -> None:
        old, waiting = make_record(Status.FAILED, subject="a"), make_record(Status.WAITING)
        make_record(subject="a")
        question = operator.post(RECORDS, choose("retry_now", old, waiting)).content.decode()
        assert statuses(old, waiting) == [Status.FAILED, Status.WAITING]
        page = operator.post(RECORDS, hidden_fields(question), follow=True).content.decode()
        assert statuses(old, waiting) == [Status.FAILED, Status.READY]
        assert "Retry now: 1 ready, 1 left to another record of the same subject." in page

    def test_all_of_a_filtered_list_are_changed_and_nothing_beyond_the_filter(self, operator: Client) -> None:
        BacklogRecord.objects.bulk_create(build_record(queue="backups") for _ in range(150))
        other = make_record(queue="default")
        url = f"{RECORDS}?queue=backups"
        first = BacklogRecord.objects.filter(queue="backups").first()
        assert first is not None
        question = operator.post(url, choose("cancel", first, select_across="1")).content.decode()
        assert "Cancel: 150 records (150 ready)?" in question
        assert "and 140 more" in question
        operator.post(url, hidden_fields(question))
        assert BacklogRecord.objects.filter(status=Status.CANCELLED).count() == 150
        assert statuses(other) == [Status.READY]


class TestFromARecordsPage:
    @pytest.mark.parametrize(
        ("path", "before", "after"),
        [("cancel", Status.WAITING, Status.CANCELLED), ("retry", Status.FAILED, Status.READY)],
    )
    def test_its_buttons_ask_and_then_do(self, path: str, before: Status, after: Status, operator: Client) -> None:
        record = make_record(before)
        page = operator.get(f"{RECORDS}{record.pk}/change/").content.decode()
        [url] = re.findall(rf'href="({RECORDS}[^"]*/{path}/)"', page)
        question = operator.get(url).content.decode()
        assert f"1 record (1 {before.label})?" in question
        assert statuses(record) == [before]
        answered = operator.post(url, hidden_fields(question))
        assert answered.headers["Location"] == f"{RECORDS}{record.pk}/change/"
        assert statuses(record) == [after]

    def test_a_link_alone_changes_nothing_whatever_it_says(self, operator: Client) -> None:
        record = make_record()
        assert operator.get(f"{RECORDS}{record.pk}/cancel/?confirmed=yes").status_code == 200
        operator.post(f"{RECORDS}{record.pk}/cancel/?confirmed=yes")
        assert statuses(record) == [Status.READY]

    @pytest.mark.parametrize(
        "key",
        [
            "7",
        ],
    )
    def test_a_made_up_id_leads_back_to_the_list(self, key: str, operator: Client) -> None:
        for request in (operator.get, operator.post):
            response = request(f"{RECORDS}{key}/cancel/", {"confirmed": "yes"})
            assert response.headers.get("Location") == RECORDS


class TestPausedQueuesInTheList:
    def test_a_notice_names_them_with_their_reason(self, operator: Client) -> None:
        assert "paused queues" not in operator.get(RECORDS).content.decode()
        backlog.pause_queue("backups", "the <store> is full")
        backlog.pause_queue("default")
        page = operator.get(RECORDS).content.decode()
        assert "Nothing is claimed from paused queues: backups (the &lt;store&gt; is full); default." in page

    @pytest.mark.parametrize(("answer", "expected"), [("yes", {"backups"}), ("no", {"default"})])
    def test_a_filter_shows_what_they_hold_up(self, answer: str, expected: set[str], operator: Client) -> None:
        backlog.pause_queue("backups")
        make_record(queue="backups")
        make_record(queue="default")
        listed = operator.get(f"{RECORDS}?paused={answer}").context["cl"].result_list
        assert {record.queue for record in listed} == expected


class TestThePageOfQueues:
    def test_shows_every_queue_of_the_settings_and_those_in_use(self, operator: Client) -> None:
        make_record(queue="theirs")
        make_worker(queues={"backups": 16})
        page = operator.get(QUEUES).content.decode()
        for name in conf.queue_rules():
            assert f'name="name" value="{name}"' in page
        assert "theirs (not in the settings)" in page
        assert "1 worker, 16 places" in page

    def test_pauses_with_a_reason_and_resumes(self, operator: Client) -> None:
        fields = {"name": "backups", "verb": "pause", "reason": " the store is full "}
        page = operator.post(QUEUES, fields, follow=True).content.decode()
        assert PausedQueue.objects.get().reason == "the store is full"
        assert "Queue backups is paused." in page
        assert "the store is full" in page
        assert 'name="verb" value="resume"' in page
        page = operator.post(QUEUES, {"name": "backups", "verb": "resume"}, follow=True).content.decode()
        assert not PausedQueue.objects.exists()
        assert "Queue backups goes on." in page

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"name": "bakcups"}, "no queue &#x27;bakcups&#x27;; there are"),
        ],
    )
    def test_what_cannot_be_done_is_told(self, fields: dict[str, str], said: str, operator: Client) -> None:
        assert said in operator.post(QUEUES, fields, follow=True).content.decode()
        assert not PausedQueue.objects.exists()

    def test_posts_need_a_token(self) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(User.objects.create_superuser("admin"))
        assert client.post(QUEUES, {"name": "backups", "verb": "pause"}).status_code == 403
        page = client.get(QUEUES).content.decode()
        [token, *_] = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert client.post(QUEUES, {"name": "backups", "csrfmiddlewaretoken": token}).status_code == 302

    def test_costs_few_queries_however_many_records_there_are(
        self, operator: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for status in (*UNFINISHED, *FINISHED):
            make_record(status)
        with django_assert_max_num_queries(25):
            operator.get(QUEUES)
