"""Actions of an operator in the admin: retry, cancel, pause, resume. Only after a question, in one request for many."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from jobs import backlog, conf
from jobs.models import BacklogRecord, PausedQueue
from jobs.states import FINISHED, UNFINISHED, Status
from tests.factories import build_record, make_record, make_worker, statuses
from tests.operations.questions import asked, choose, hidden_fields

pytestmark = pytest.mark.django_db

RECORDS = "/admin/jobs/backlogrecord/"
QUEUES = "/admin/jobs/pausedqueue/"


class TestFromTheList:
    def test_cancelling_asks_first_and_cancels_what_was_chosen_and_nothing_else(self, operator: Client) -> None:
        records = [make_record(), make_record(Status.RUNNING), make_record(Status.FAILED), make_record()]
        question = operator.post(RECORDS, choose("cancel", *records[:3])).content.decode()
        assert "Cancel: 3 records (1 ready, 1 running, 1 failed)?" in question
        assert statuses(*records) == [Status.READY, Status.RUNNING, Status.FAILED, Status.READY]
        page = operator.post(RECORDS, hidden_fields(question), follow=True).content.decode()
        assert statuses(*records) == [Status.CANCELLED, Status.RUNNING, Status.FAILED, Status.READY]
        assert BacklogRecord.objects.get(pk=records[1].pk).cancel_requested_at is not None
        assert "Cancel: 1 cancelled, 1 asked to stop, 1 had ended before." in page

    def test_retrying_tells_what_goes_on_instead(self, operator: Client) -> None:
        old, waiting = make_record(Status.FAILED, subject="a"), make_record(Status.WAITING)
        make_record(subject="a", payload={"title": "<script>alert(1)</script>"})
        question, page = asked(operator, RECORDS, choose("retry_now", *BacklogRecord.objects.all()))
        assert statuses(old, waiting) == [Status.FAILED, Status.READY]
        assert "left to another record of the same subject." in page
        assert "<script>alert(1)" not in question

    def test_all_of_a_filtered_list_are_changed_and_nothing_beyond_the_filter(self, operator: Client) -> None:
        BacklogRecord.objects.bulk_create(build_record(queue="backups") for _ in range(150))
        other = make_record(queue="default")
        first = BacklogRecord.objects.filter(queue="backups").first()
        question, _ = asked(operator, f"{RECORDS}?queue=backups", choose("cancel", first, select_across="1"))
        assert "Cancel: 150 records (150 ready)?" in question
        assert "and 140 more" in question
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
        for request in (operator.get, operator.post):
            request(f"{url}?confirmed=yes")
        assert statuses(record) == [before]
        answered = operator.post(url, hidden_fields(question))
        assert answered.headers["Location"] == f"{RECORDS}{record.pk}/change/"
        assert statuses(record) == [after]

    @pytest.mark.parametrize("key", ["7", "9" * 30])
    def test_a_made_up_id_leads_back_to_the_list(self, key: str, operator: Client) -> None:
        for request in (operator.get, operator.post):
            response = request(f"{RECORDS}{key}/cancel/", {"confirmed": "yes"}, follow=True)
            assert response.redirect_chain == [(RECORDS, 302)]
            assert f"There is no record {key}." in response.content.decode()


class TestPausedQueuesInTheList:
    def test_a_notice_names_them_and_a_filter_shows_what_they_hold_up(self, operator: Client) -> None:
        assert "paused queues" not in operator.get(RECORDS).content.decode()
        backlog.pause_queue("backups", "the <store> is full")
        backlog.pause_queue("availability")
        make_record(queue="backups"), make_record(queue="default")
        page = operator.get(RECORDS).content.decode()
        assert "Nothing is claimed from paused queues: availability; backups (the &lt;store&gt; is full)." in page
        for answer, queue in (("yes", "backups"), ("no", "default")):
            listed = operator.get(f"{RECORDS}?paused={answer}").context["cl"].result_list
            assert [record.queue for record in listed] == [queue]


class TestThePageOfQueues:
    def test_shows_every_queue_of_the_settings_and_those_in_use_in_few_queries(
        self, operator: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for status in (*UNFINISHED, *FINISHED):
            make_record(status, queue="theirs")
        make_worker(queues={"backups": 16})
        with django_assert_max_num_queries(25):
            page = operator.get(QUEUES).content.decode()
        for name in conf.queue_rules():
            assert f'name="name" value="{name}"' in page
        assert "theirs (not in the settings)" in page
        assert "1 worker, 16 places" in page

    def test_pauses_with_a_reason_and_resumes(self, operator: Client) -> None:
        fields = {"name": "backups", "verb": "pause", "reason": " the store is full "}
        page = operator.post(QUEUES, fields, follow=True).content.decode()
        assert PausedQueue.objects.get().reason == "the store is full"
        for part in ("Queue backups is paused.", "the store is full", 'name="verb" value="resume"'):
            assert part in page
        page = operator.post(QUEUES, {"name": "backups", "verb": "resume"}, follow=True).content.decode()
        assert not PausedQueue.objects.exists()
        assert "Queue backups is resumed." in page
        page = operator.post(QUEUES, {"name": "bakcups"}, follow=True).content.decode()
        assert "no queue &#x27;bakcups&#x27;; there are" in page

    def test_posts_need_a_token(self) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(User.objects.create_superuser("admin"))
        assert client.post(QUEUES, {"name": "backups", "verb": "pause"}).status_code == 403
        page = client.get(QUEUES).content.decode()
        [token, *_] = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert client.post(QUEUES, {"name": "backups", "csrfmiddlewaretoken": token}).status_code == 302
