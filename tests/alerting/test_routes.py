"""Routes are set by superusers; their URLs go in and never come out again."""

import json
import re

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from alerting import sending, urls
from alerting.conditions import ADD_ONE
from alerting.declarations import Routes
from alerting.models import AlertRoute
from declarations import InUse
from fleet.policy_edits import Policies
from jobs.clock import database_clock
from operations.backlog import HINTS
from sealing.models import StoredSecret
from sealing.stored_secrets import read, store
from tests.alerting.making import AT, NO_ROOM, failing, look, make_route
from tests.api.asking import Program
from tests.commands import command
from tests.delivery.receiver import receiving
from tests.factories import everything_stored
from tests.operations.conditions.examining import OK, finding
from tests.sources.factories import make_assignment, make_policy
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

URL = "slack://T0ken1/T0ken2/T0ken3"


def edit(row: AlertRoute | None = None, **sent: object) -> AlertRoute:
    service = Routes()
    return service.edit(row or service.new(), sent).row


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("exec://ls", "begins with one of"),
        ("file:///etc/passwd", "begins with one of"),
        ("syslog://", "begins with one of"),
        ("dbus://", "begins with one of"),
        ("windows://", "begins with one of"),
        ("https://example.com/hook", "jsons://"),
        ("ops@example.com", "not a URL of Apprise"),
        ("slack://a/b/c?template=/etc/passwd", "template"),
        ("mailto://a:b@example.com?PGPpub=/etc/shadow", "would read files"),
        ("json://example.com/a b", "one line"),
        (URL, ""),
        ("mailtos://u:p@example.com", ""),
        ("SLACK://a/b/c", ""),
    ],
)
def test_only_services_that_reach_people_are_allowed(url: str, problem: str):
    assert problem in urls.problem_with(url)
    assert bool(problem) == bool(urls.problem_with(url))


@pytest.mark.parametrize(
    ("url", "shown", "secret"),
    [
        ("ntfys://ntfy.example.com/my-topic", "ntfys://ntfy.example.com/…", "my-topic"),
        ("ntfy://my-topic", "ntfy://…", "my-topic"),
        ("matrix://0123456789abcdef", "matrix://…", "0123456789abcdef"),
        ("mailtos://user:pass%20word@example.com", "mailtos://example.com/…", "pass word"),
    ],
)
def test_a_topic_or_token_in_place_of_a_host_is_not_shown(url: str, shown: str, secret: str):
    assert urls.shown(url) == shown
    assert secret in urls.secrets_of(url)


def test_a_url_is_sealed_and_replaced_and_in_no_table():
    route = edit(name="ops team", secret_url=URL, policies=[str(make_policy())])
    assert (route.url, read("alert-ops-team")) == ("stored:alert-ops-team", URL)
    edit(route, secret_url="slack://N3w/N3w/N3w", digest="daily")
    assert read("alert-ops-team") == "slack://N3w/N3w/N3w"
    assert "T0ken" not in everything_stored()
    assert edit(route, policies=[]).policies.count() == 0


def test_a_url_that_a_route_is_given_under_another_name_replaces_the_one_before():
    route = edit(name="ops", secret_url=URL)
    edit(route, name="team", secret_url=URL)
    assert list(StoredSecret.objects.values_list("name", flat=True)) == ["alert-team"]
    edit(route, url="env:BACKUP_SECRET_OPS")
    assert not StoredSecret.objects.exists()


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"url": URL}, "url"),
        ({"url": "env:HOME"}, "url"),
        ({"url": "stored:none"}, "url"),
        ({"secret_url": "exec://ls"}, "secret_url"),
        ({"secret_url": URL, "kinds": ["nonsense"]}, "kinds"),
        ({"secret_url": URL, "policies": ["nobody's"]}, "policies"),
        ({"secret_url": URL, "quiet": [{"days": "mon"}]}, "quiet"),
        ({"secret_url": URL, "zone": "Mars/Olympus"}, "zone"),
    ],
)
def test_what_is_wrong_is_refused_by_field_without_the_url(sent: dict[str, object], field: str):
    with pytest.raises(ValidationError) as refused:
        edit(name="ops", **sent)
    assert list(refused.value.message_dict) == [field]
    assert not re.search("T0ken|password|for sources", str(refused.value))
    assert not StoredSecret.objects.exists()


def test_a_superuser_tests_a_route_in_the_admin(admin_client, settings, monkeypatch):
    monkeypatch.setattr(sending, "TEST_SECONDS", PATIENCE)
    settings.CALLBACKS_ALLOWED = ["127.0.0.1"]
    with receiving() as receiver:
        route = make_route(f"json://127.0.0.1:{receiver.port}/t0ken", name="hook")
        test = reverse("admin:alerting_alertroute_send_test", args=[route.pk])
        page = admin_client.post(test, {"confirmed": "yes"}, follow=True)
        assert "Delivered to hook." in page.content.decode()
        [request] = receiver.requests
    assert json.loads(request.body)["title"] == "Test of hook"


run, refused = command("alerts")


def test_the_command_lists_alerts():
    assert "no open alerts" in run()
    assert "no routes" in run("routes")
    make_route()
    assignment = failing()
    look(AT)
    assert assignment.source.name in run()
    [alert] = json.loads(run("--json"))
    assert alert["kind"] == "failing"


def test_the_sealed_url_goes_with_its_route_where_that_was_said(tmp_path, admin_client):
    file = tmp_path / "url"
    file.write_text(URL)
    for _ in range(2):  # the name is free again
        run("add", "ops", "--url-file", str(file))
        assert "Its URL, the stored secret alert-ops, goes with it." in run("remove", "ops", "--yes")
        assert not StoredSecret.objects.exists()
    page = reverse("admin:alerting_alertroute_delete", args=[edit(name="ops", secret_url=URL).pk])
    assert "its URL, the stored secret alert-ops" in admin_client.get(page).content.decode()
    assert admin_client.post(page, {"post": "yes"}).status_code == 302
    assert Program().delete(f"alert-routes/{edit(name='ops', secret_url=URL).pk}").status_code == 204
    assert not StoredSecret.objects.exists()


def test_a_url_that_something_else_refers_to_or_that_was_stored_by_itself_stays():
    route = edit(name="ops", secret_url=URL)
    other = edit(name="other", url=route.url)
    assert "stored secret" not in run("remove", "ops", "--yes")
    assert read("alert-ops") == URL
    store("chat", URL)
    edit(other, url="stored:chat")
    run("remove", "other", "--yes")
    assert read("chat") == URL


def test_a_test_that_does_not_arrive_says_why(monkeypatch):
    monkeypatch.setattr(sending, "PROGRAM", NO_ROOM)
    make_route("json://127.0.0.1:1/t0ken", name="hook")
    error = refused("test", "hook", code=1)
    assert error == "not delivered to hook: json://127.0.0.1/…: the process that sends it ended with 1: no room"


def test_a_wrong_url_is_named_by_the_option_that_took_it(tmp_path):
    file = tmp_path / "url"
    file.write_text("https://hooks.example.org/t0ken")
    error = refused("add", "ops", "--url-file", file, code=None)
    assert error.startswith("nothing was saved:\n--url-file: begins with json")
    assert "t0ken" not in error


def test_a_route_does_not_come_to_get_everything_when_its_last_policy_is_deleted():
    route, policies = make_route(name="laptops only"), [make_policy() for _ in range(2)]
    route.policies.set(policies)
    Policies().remove(policies[:1])
    with pytest.raises(InUse, match=r"alerts of this policy only \(laptops only\): name another"):
        Policies().remove(policies[1:])
    assert route.policies.get() == policies[1]


def test_without_a_route_each_place_that_is_looked_at_says_so(admin_client: Client) -> None:
    run_status, _ = command("status")
    told = "No alert route is enabled: problems are shown here, and sent to no one"
    assert finding("alert_routes").severity is OK, "there is nothing to watch over"
    make_assignment()
    assert finding("alert_routes").what == told
    page = admin_client.get("/admin/", follow=True).content.decode()
    assert told in page
    assert "An alert route" in page, "of the first steps"
    with pytest.raises(SystemExit):  # its first backup is missing
        run_status()
    assert [text for ask in HINTS for text in ask(database_clock())] == [f"{told}. {ADD_ONE}."]
    make_route()
    assert finding("alert_routes").severity is OK
    assert told not in admin_client.get("/admin/", follow=True).content.decode()
