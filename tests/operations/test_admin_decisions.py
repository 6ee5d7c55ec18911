"""The log of decisions in the admin: to read, filter and search, never to change, and nothing counts its lines."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.models import Decision, Level
from tests.factories import NOON, make_record, make_worker

pytestmark = pytest.mark.django_db

LOG = "/admin/jobs/decision/"


def add_line(text: str = "it was done", **fields: Any) -> Decision:
    values = {"what": "answered", "kind": "backup", "subject": "assignment:1", "at": NOON, **fields}
    return Decision.objects.create(text=text, **values)


def add_claim(**facts: Any) -> Decision:
    keys = {"priority": 0, "rank_day": "2026-03-01", "tried_at": None, "expected_seconds": 61.0}
    found = {
        "wanted": 16,
        "count": 1,
        "claimed": [{"id": 7, "subject": "assignment:1", "title": "laptop-1", **keys}],
        "left": [{"id": 8, "subject": "assignment:2", "title": "laptop-2", **keys}],
        "decided_by": "id",
        **facts,
    }
    return add_line("1 of 16 wanted were claimed", what="claimed", level=Level.CONSIDERING, subject="", facts=found)


def listed(client: Client, query: str = "") -> list[str]:
    response = client.get(f"{LOG}?{query}")
    assert response.status_code == 200, response.headers.get("Location")
    return [line.text for line in response.context["cl"].result_list]


class TestList:
    def test_has_the_newest_line_first_and_filters_by_level_what_and_kind(self, admin_client: Client) -> None:
        add_line("answered")
        add_line("silent", what="silent", at=NOON + timedelta(seconds=1))
        add_claim()
        assert listed(admin_client) == ["1 of 16 wanted were claimed", "silent", "answered"]
        assert listed(admin_client, "what=silent") == ["silent"]
        assert listed(admin_client, "level__exact=2") == ["1 of 16 wanted were claimed"]
        assert len(listed(admin_client, "kind=backup")) == 3
        assert listed(admin_client, "kind=other") == []

    def test_counts_nothing_and_takes_as_many_queries_for_fifty_lines_as_for_one(self, admin_client: Client) -> None:
        add_line(worker=make_worker())
        with CaptureQueriesContext(connection) as few:
            listed(admin_client, "what=answered")
        for _ in range(50):
            add_line(worker=make_worker())
        with CaptureQueriesContext(connection) as many:
            assert len(listed(admin_client, "what=answered")) == 50
        assert len(many) == len(few)
        assert not [query["sql"] for query in many if "COUNT(" in query["sql"] and "jobs_decision" in query["sql"]]


class TestPage:
    def test_shows_whom_a_claim_took_and_left_and_what_decided(self, admin_client: Client) -> None:
        page = admin_client.get(f"{LOG}{add_claim().pk}/change/").content.decode()
        assert page.index("laptop-1") < page.index("laptop-2")
        assert "decided by: the prior order" in page
        assert "1 min 1 s" in page
        odd = add_line(facts={"claimed": None, "left": []})  # of another shape
        assert admin_client.get(f"{LOG}{odd.pk}/change/").status_code == 200

    def test_leads_to_its_record_and_a_record_leads_to_its_lines(self, admin_client: Client) -> None:
        record = make_record(kind="backup", subject="assignment:1")
        other = make_record(kind="backup", subject="assignment:2")
        add_line("first", record_id=record.pk)
        add_line("second", record_id=other.pk, subject="assignment:2")
        address = f"/admin/jobs/backlogrecord/{record.pk}/change/"
        assert address in admin_client.get(LOG).content.decode()
        page = admin_client.get(address).content.decode()
        query = f"kind=backup&amp;subject=assignment%3A1&amp;record_id={record.pk}"
        assert query in page
        assert listed(admin_client, query.replace("&amp;", "&")) == ["first"]
