"""The menu of the admin, and the lists that it leads to."""

import re

import pytest
from django.contrib import admin
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from tests.backupsched.one_of_each import make_one_of_each
from tests.factories import make_schedule
from tests.people import staff
from tests.sources.factories import make_policy

pytestmark = pytest.mark.django_db

CELL = re.compile(r'data-label="([^"]*)">(.*?)</t[dh]>', re.DOTALL)


def links(client: Client) -> set[str]:
    groups = client.get("/").context["sidebar_navigation"]
    return {str(item["link"]) for group in groups for item in group["items"]}


def test_has_three_groups_and_leads_to_every_table_that_holds_something_each_instant_of_which_says_utc(admin_client):
    make_one_of_each()
    groups = admin_client.get("/").context["sidebar_navigation"]
    assert [group["title"] for group in groups] == ["Backups", "Events", "System"]
    found = links(admin_client)
    filled = [model._meta for model in admin.site._registry if model._default_manager.exists()]
    assert {reverse(f"admin:{each.app_label}_{each.model_name}_changelist") for each in filled} <= found
    assert {"/", "/docs/", "/api/docs", "/backoff/", "/admin/jobs/backlogrecord/dead-letters/"} <= found
    pages = {link: admin_client.get(link) for link in found}
    assert [link for link, page in pages.items() if page.status_code != 200] == []
    cells = [
        (link, column, cell)
        for link, page in pages.items()
        for column, cell in CELL.findall(page.content.decode())
        if re.search(r"\d\d:\d\d:\d\d(?! UTC)", cell)
    ]
    assert len(cells) > 10
    assert "/admin/jobs/backlogrecord/?events=yes" in pages
    assert [cell for cell in cells if "(UTC)" not in cell[1]] == []


def test_hides_what_only_machines_write_while_there_is_nothing_of_it(admin_client):
    assert not links(admin_client) & {"/admin/jobs/lane/", "/admin/jobs/sweep/", "/admin/django_q/ormq/"}


def test_leads_to_restores_before_the_first_one_and_the_list_says_how_one_begins():
    client = staff("view_restore")
    assert "/admin/sources/restore/" in links(client)
    assert "by the button Restore" in client.get("/admin/sources/restore/").content.decode()


def test_assignments_stand_beside_their_sources(admin_client):
    make_one_of_each()
    backups = [item["title"] for item in admin_client.get("/").context["sidebar_navigation"][0]["items"]]
    assert backups.index("Assignments") == backups.index("Sources") + 1


def test_alerts_and_the_backlog_do_not_stand_in_what_is_folded(admin_client):
    make_one_of_each()
    groups = {group["title"]: group for group in admin_client.get("/").context["sidebar_navigation"]}
    first = [item["title"] for item in groups["Backups"]["items"]]
    assert first[:2] == ["Home", "Alerts"]
    assert "Backlog" in first
    assert not {"Alerts", "Backlog"} & {item["title"] for item in groups["System"]["items"]}
    assert [title for title, each in groups.items() if each["collapsible"]] == ["System"]


def test_browsers_find_an_icon_and_pages_outside_of_the_frame_a_style_sheet():
    client = Client()
    icon = client.get("/favicon.ico")
    assert icon.headers["Location"] == "/static/backupsched/favicon.svg"
    page = client.get("/nowhere/").content.decode()
    for name in ("declarations/plain.css", "backupsched/favicon.svg"):
        assert f'href="/static/{name}"' in page
        assert finders.find(name)


def test_leads_no_account_where_it_may_not_go():
    client = staff("view_source")
    found = links(client)
    assert {link for link in found if link.startswith("/admin/")} == {"/admin/sources/source/"}
    assert [link for link in found if client.get(link).status_code != 200] == []
    client = staff()
    found = links(client)
    assert [link for link in found if client.get(link).status_code != 200] == []
    assert "Your account may look at nothing here yet." in client.get("/").content.decode()


def test_a_page_that_is_refused_or_not_there_says_so_and_leads_home():
    client = staff()
    for path, status, words in (("/matrix/", 403, "Your account may not"), ("/admin/nowhere/", 404, "nothing at this")):
        answer = client.get(path)
        assert answer.status_code == status
        assert words in answer.content.decode()
        assert '<a href="/">Home</a>' in answer.content.decode()


def test_an_empty_list_says_what_it_is_for(admin_client):
    assert "A repository is where backups go" in admin_client.get("/admin/sources/repository/").content.decode()
    assert "Nothing is found" in admin_client.get("/admin/sources/repository/?q=nowhere").content.decode()


def test_schedules_of_policies_are_listed_when_they_are_asked_for(admin_client):
    policy, events = make_policy(), make_schedule()
    listed = {
        of: {row.name for row in admin_client.get(f"/admin/schedules/schedule/?{of}").context["cl"].result_list}
        for of in ("", "of=policies", "of=both")
    }
    assert listed == {"": {events.name}, "of=policies": {str(policy)}, "of=both": {events.name, str(policy)}}


def test_marks_the_page_that_is_open_and_no_other(admin_client):
    records = "/admin/jobs/backlogrecord/"
    for path in (records, f"{records}dead-letters/", f"{records}?events=yes"):
        groups = admin_client.get(path).context["sidebar_navigation"]
        assert [item["link"] for group in groups for item in group["items"] if item["active"]] == [path]
