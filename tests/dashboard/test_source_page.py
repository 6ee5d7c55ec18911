"""The page of a source: what stands above its settings, and the settings of its kind."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from engines.kinds import RULES
from fleet.admin import source_page
from fleet.admin.source_form import OPTION
from fleet.status import reasons_of
from jobs.models import BacklogRecord
from sources.models import Assignment, Source
from tests.people import staff, told
from tests.sources.factories import HOST_KEY, make_assignment, make_policy, make_source
from tests.sources.hosts import PASSWORD, Hosts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

SOURCES = "/admin/sources/source/"


def act(client: Client, source: Source, **fields: Any) -> str:
    return told(client.post(f"{SOURCES}{source.pk}/act/", fields))


def page(client: Client, source: Source) -> str:
    return client.get(f"{SOURCES}{source.pk}/change/").content.decode()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Source]:
    """An SFTP host that is there."""
    hosts = Hosts(tmp_path)
    try:
        source = hosts().come().source(secret="env:BACKUP_SECRET_LAPTOP")
        source.save()
        yield source
    finally:
        hosts.end()


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKUP_SECRET_LAPTOP", PASSWORD)


def fields_of(client: Client, query: str) -> set[str]:
    return set(client.get(f"{SOURCES}add/{query}").context["adminform"].form.fields)


class TestAbove:
    def test_says_how_it_is_and_why_as_the_api_does(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = timezone.now()
        monkeypatch.setattr(timezone, "now", lambda: now)  # no day ends meanwhile
        failing = make_assignment(make_policy(cron="0 0 * * *"), failures=3, inserted_at=now - timedelta(days=9))
        shown = admin_client.get(f"{SOURCES}{failing.source_id}/change/")
        reason = reasons_of([failing.source], now)[failing.source_id]
        assert (shown.context["status"], shown.context["reason"]) == ("failing", reason)
        text = shown.content.decode()
        assert "Back up now" in text
        assert "missed, not asked" in text
        assert shown.context["next_attempt"] == ("at", failing.policy.schedule.period.next_after(now))
        assert "Back up now" not in page(staff("view_source"), failing.source)

    def test_what_may_be_done_is_one_click(self, admin_client: Client) -> None:
        assignment = make_assignment()
        source = assignment.source
        assert "1 backup" in act(admin_client, source, do="back_up_now")
        assert BacklogRecord.objects.unfinished().get().priority == 100
        act(admin_client, source, do="pause")
        assert Source.objects.get().paused_at
        assert "Resume" in page(admin_client, source)
        act(admin_client, source, do="resume")
        assert "Back up now" in page(admin_client, source)
        assert act(admin_client, source, do="delete_selected") == ""
        assert admin_client.get(f"{SOURCES}{source.pk}/act/").status_code == 302
        assert staff("view_source").post(f"{SOURCES}{source.pk}/act/", {"do": "pause"}).status_code == 403

    def test_what_is_under_no_policy_is_put_under_one(
        self,
        admin_client: Client,
        django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        source, policy = make_source(), make_policy()
        unassigned = page(admin_client, source)
        assert "under no policy" in unassigned
        assert "is found by its name" not in unassigned
        make_policy()
        monkeypatch.setattr(source_page, "MOST_POLICIES", 1)
        assert "the first 1 of 2 policies, by name" in page(admin_client, source)
        with django_capture_on_commit_callbacks(execute=True):
            assert "due at once" in act(admin_client, source, do="put_under", policy=policy.pk)
        assert Assignment.objects.get().policy == policy
        assert BacklogRecord.objects.unfinished().exists()
        assert "under no policy" not in page(admin_client, source)
        assert "Choose a policy" in act(admin_client, source, do="put_under", policy="none")


class TestTryingTheConnection:
    def test_says_in_a_sentence_what_was_found(self, admin_client: Client, tmp_path: Any) -> None:
        (tmp_path / "one").touch()
        there, gone = make_source(path=str(tmp_path)), make_source(path=str(tmp_path / "two"))
        assert "1 entry in its topmost folder" in act(admin_client, there, do="try")
        assert "there is no folder" in act(admin_client, gone, do="try")

    @pytest.mark.slow
    def test_reaches_an_sftp_host_as_its_engine_would(self, admin_client: Client, host: Source) -> None:
        assert "can be backed up from here" in act(admin_client, host, do="try")
        Source.objects.update(host_key=HOST_KEY)
        assert "THE HOST KEY IS NOT THE PINNED ONE" in act(admin_client, host, do="try")


class TestSettings:
    def test_are_those_of_the_kind(self, admin_client: Client) -> None:
        assert b"What is it?" not in admin_client.get(f"{SOURCES}add/?kind=s3").content
        assert b"S3 bucket" in admin_client.get(f"{SOURCES}add/").content
        assert b'name="assignments-0-policy"' in admin_client.get(f"{SOURCES}add/?kind=s3").content
        for kind, rule in ((kind, rule) for kind, rule in RULES.items() if not rule.is_any_remote):
            found = fields_of(admin_client, f"?kind={kind}")
            assert {name for name in found if name.startswith(OPTION)} == {OPTION + each.name for each in rule.options}
            assert "options" not in found
            assert ("mac_address" in found) is (rule.is_a_machine and rule.address is not None)
            assert ("host_key" in found) is rule.has_host_key

    def test_an_option_is_kept_and_a_problem_with_it_stands_beside_it(self, admin_client: Client) -> None:
        form = {"name": "usb", "kind": "local", "path": "/srv/usb", "wake_port": "9", "wake_address": "255.255.255.255"}
        form |= {"assignments-TOTAL_FORMS": "0", "assignments-INITIAL_FORMS": "0", "wake_allowed": "unknown"}
        wrong = admin_client.post(f"{SOURCES}add/", form | {"option_marker": "/etc"})
        assert "below the source" in str(wrong.context["adminform"].form.errors["option_marker"])
        assert admin_client.post(f"{SOURCES}add/", form | {"option_marker": ".volume"}).status_code == 302
        source = Source.objects.get()
        assert source.options == {"marker": ".volume"}
        address = f"{SOURCES}{source.pk}/change/"
        assert b'value=".volume"' in admin_client.get(address).content
        assert admin_client.post(address, form | {"option_marker": ""}).status_code == 302
        assert Source.objects.get().options == {}
        # another kind: what the old one had and the new one has not goes
        Source.objects.update(options={"marker": ".volume"}, mac_address="02:00:00:aa:bb:cc")
        bucket = {"kind": "s3", "address": "https://s3.example.org", "path": "photos", "option_access_key_id": "KEY"}
        assert b"is required" in admin_client.post(address, form | bucket).content
        assert admin_client.post(address, form | bucket | {"secret": "env:BACKUP_SECRET_S3"}).status_code == 302
        source = Source.objects.get()
        assert (source.options, source.mac_address) == ({"access_key_id": "KEY"}, "")

    def test_nothing_is_fetched_for_whom_may_not_edit(self) -> None:
        source = make_source(kind="sftp", address="127.0.0.1", port=1)
        form = {"_fetch_host_key": "1", "address": "127.0.0.1", "port": "1", "kind": "sftp"}
        answer = staff("view_source").post(f"{SOURCES}{source.pk}/change/", form)
        assert answer.status_code == 403
        assert not hasattr(answer.wsgi_request, "fetched")

    @pytest.mark.slow
    def test_a_fetched_host_key_is_shown_and_not_saved_before_a_person_does(
        self, admin_client: Client, host: Source
    ) -> None:
        Source.objects.update(host_key=HOST_KEY)
        form = {
            "name": host.name, "kind": "sftp", "address": host.address, "port": host.port or 22,
            "path": host.path, "secret": host.secret, "host_key": HOST_KEY, "wake_port": "9",
            "wake_address": "255.255.255.255", "wake_allowed": "unknown", "option_user": host.options["user"],
            "assignments-TOTAL_FORMS": "0", "assignments-INITIAL_FORMS": "0",
        }  # fmt: skip
        address = f"{SOURCES}{host.pk}/change/"
        shown = admin_client.post(address, form | {"_fetch_host_key": "1"}).context["adminform"].form
        assert "NOT SAVED YET" in str(shown.errors["host_key"])
        assert "SHA256:" in str(shown.errors["host_key"])
        assert Source.objects.get().host_key == HOST_KEY
        key = shown["host_key"].value()
        assert key.split()[1] in host.host_key
        assert admin_client.post(address, form | {"host_key": key}).status_code == 302
        assert Source.objects.get().host_key == key
        silent = admin_client.post(address, form | {"_fetch_host_key": "1", "port": "1"})
        assert "Nothing was fetched" in str(silent.context["adminform"].form.errors["host_key"])
