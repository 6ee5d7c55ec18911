"""Filters by a row of a table that may be large: what they list, and the way to what they leave out."""

import pytest
from django.test import Client

from operations.admin import filters
from tests.people import staff
from tests.schedules.event_records import make_event_schedule
from tests.sources.factories import make_assignment, policy_named

pytestmark = pytest.mark.django_db

ASSIGNMENTS, BACKUPS, SOURCES = (f"/admin/sources/{name}/" for name in ("assignment", "backup", "source"))
RECORDS, TRIGGERS = "/admin/jobs/backlogrecord/", "/admin/schedules/trigger/"
POLICIES, SCHEDULES = "/admin/sources/policy/", "/admin/schedules/schedule/?of=both"


def listed(client: Client, path: str, **asked: str) -> list[int]:
    return [row.pk for row in client.get(path, asked).context["cl"].result_list]


def test_of_many_policies_the_first_are_listed_as_a_filter_and_the_chosen_one(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MOST_LISTED", 1)
    first, last = (make_assignment(policy_named(name)) for name in ("daily", "weekly"))
    for chosen, names in (("", ["daily"]), (str(last.policy_id), ["daily", "weekly"]), ("9" * 20, ["daily"])):
        page = admin_client.get(SOURCES, {"policy": chosen} if chosen else {}).context["cl"]
        [policies] = [each for each in page.filter_specs if each.title == "policy"]
        assert [name for _, name in policies.lookup_choices] == names
    assert listed(admin_client, SOURCES, policy=str(last.policy_id)) == [last.source_id]
    listed_policies = admin_client.get("/admin/sources/policy/").content.decode()
    for path in (SOURCES, ASSIGNMENTS, BACKUPS):
        assert f'href="{path}?policy={first.policy_id}"' in listed_policies


@pytest.mark.parametrize(
    ("path", "title", "leads_to"),
    [
        (SOURCES, "policy", POLICIES),
        (ASSIGNMENTS, "policy", POLICIES),
        (BACKUPS, "policy", POLICIES),
        (RECORDS, "schedule", SCHEDULES),
        (TRIGGERS, "schedule", SCHEDULES),
    ],
)
def test_a_filter_that_leaves_rows_out_says_so_and_leads_to_their_list(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, path: str, title: str, leads_to: str
) -> None:
    for name in ("daily", "weekly", "yearly"):
        policy_named(name)
    for most, line in (
        (3, None),
        (2, f"2 of 3: choose on the list of {'policies' if title == 'policy' else 'schedules'}"),
    ):
        monkeypatch.setattr(filters, "MOST_LISTED", most)
        answer = admin_client.get(path)
        [spec] = [each for each in answer.context["cl"].filter_specs if each.title == title]
        last = list(spec.choices(answer.context["cl"]))[-1]
        assert last["display"] == (line or "yearly")
        if line:
            assert f'href="{leads_to}" title="{line}"' in answer.content.decode()
    listed_there = admin_client.get(leads_to).context["cl"].result_list
    assert [str(each) for each in listed_there] == ["daily", "weekly", "yearly"]
    assert listed(admin_client, path, **{title: "9" * 20}) == listed(admin_client, path, **{title: "none"}) == []
    person = staff(f"view_{path.split('/')[-2]}")
    assert "2 of 3 are listed" in person.get(path).content.decode()


def test_the_list_of_schedules_leads_to_the_records_and_triggers_of_each(admin_client: Client) -> None:
    schedule = make_event_schedule()
    page = admin_client.get("/admin/schedules/schedule/").content.decode()
    for path in (RECORDS, TRIGGERS):
        assert f'href="{path}?schedule={schedule.pk}"' in page
