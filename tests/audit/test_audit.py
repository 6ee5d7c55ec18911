"""Every way to change a declaration is recorded: by whom, how, and the values, except secrets."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from api.models import ApiToken
from audit import entries, triggers
from audit.actors import Actor, acting, may_fire
from audit.models import AuditEntry
from audit.tables import followed
from delivery.models import Endpoint
from fleet.files.schema import SECTIONS
from fleet.policy_edits import Policies
from jobs import backlog
from jobs.models import Origin, Throttle
from schedules.models import Schedule
from sealing.models import StoredSecret
from sealing.stored_secrets import store
from sources import planning
from sources.models import Assignment, Policy, Source
from tests.api.asking import Program, make_user
from tests.factories import make_throttle
from tests.jobs.worker_processes import database_url
from tests.people import staff
from tests.sources.factories import make_assignment, make_policy, make_source

pytestmark = pytest.mark.django_db
ALICE = Actor("alice", "web")


def seen(**about: Any) -> list[tuple[str, str, dict[str, list[Any]]]]:
    """The entries: user, verb and values, the oldest first."""
    found = entries.facts(AuditEntry.objects.filter(**about).order_by("pk"))
    return [(each["who"], each["verb"], each["changes"]) for each in found]


def forget() -> None:
    AuditEntry.objects.all().delete()


class TestWays:
    def test_a_form_names_the_account_and_the_history_of_the_row_shows_it(self, admin_client: Client) -> None:
        throttle = make_throttle(5)
        forget()
        path = f"/admin/jobs/throttle/{throttle.pk}/"
        sent = {"name": throttle.name, "max_in_flight": 7, "rate": "", "burst": ""}
        assert admin_client.post(f"{path}change/", sent).status_code == 302
        assert seen() == [("admin", "changed", {"max_in_flight": [5, 7]})]
        page = admin_client.get(f"{path}history/").content.decode()
        assert "max in flight 5 → 7" in page
        assert "admin" in page

    def test_a_bulk_edit_and_plain_sql_are_seen_row_by_row(self) -> None:
        sources = [make_source(port=22) for _ in range(3)]
        forget()
        with acting(lambda: ALICE):
            Source.objects.update(port=2222)
            Source.objects.bulk_update([Source(pk=each.pk, port=22) for each in sources], ["port"])
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('backupsched.actor', '', true)")  # of the test's one transaction
            cursor.execute("UPDATE sources_source SET path = path || '/x' WHERE id = %s", [sources[0].pk])
        by_alice = seen(who="alice")
        assert [changes["port"] for _, _, changes in by_alice] == [[22, 2222]] * 3 + [[2222, 22]] * 3
        [sql] = AuditEntry.objects.filter(via__startswith="SQL")
        assert "@" in sql.who
        assert sql.after["path"] == f"{sql.before['path']}/x"

    @pytest.mark.django_db(transaction=True)
    def test_an_actor_does_not_outlive_its_transaction(self) -> None:
        """Else a pooler would give it to another client."""
        throttle = make_throttle(5)
        with acting(lambda: ALICE):
            Throttle.objects.update(max_in_flight=6)
        Throttle.objects.filter(pk=throttle.pk).update(max_in_flight=7)
        assert [who == "alice" for who, _, _ in seen(verb="changed")] == [True, False]

    def test_what_is_rolled_back_is_not_seen(self) -> None:
        throttle = make_throttle(5)
        forget()
        with transaction.atomic():
            Throttle.objects.filter(pk=throttle.pk).update(max_in_flight=6)
            transaction.set_rollback(True)
        assert seen() == []

    def test_a_deletion_keeps_what_there_was_and_names_it(self) -> None:
        assignment = make_assignment()
        title = str(assignment)
        forget()
        assignment.delete()
        [entry] = AuditEntry.objects.filter(about="sources.assignment")
        assert (entry.verb, entry.name, entry.after) == ("deleted", title, {})
        assert entry.before["source_id"] == assignment.source_id


class TestWhatIsSeen:
    def test_a_policy_is_edited_with_its_schedule_and_references_are_named(self, admin_client: Client) -> None:
        policy, throttle = make_policy(cron="0 3 * * *"), make_throttle(2)
        forget()
        Policies().edit(policy, {"cron": "0 4 * * *", "priority": 9, "throttle": throttle.name, "recheck_after": 60.0})
        assert {field for _, _, changes in seen() for field in changes} == {
            "cron", "priority", "throttle", "recheck_after",
        }  # fmt: skip
        assert seen(about="schedules.schedule")[0][2]["throttle"] == [None, str(throttle)]
        assert {each.name for each in AuditEntry.objects.all()} == {str(policy)}
        page = admin_client.get(f"/admin/sources/policy/{policy.pk}/history/").content.decode()
        for words in ("cron 0 3 * * * → 0 4 * * *", "priority 0 → 9", "recheck after 900 → 60"):
            assert words in page
        kinds = {each["about"] for each in entries.facts(list(AuditEntry.objects.all()))}
        assert kinds == {"policy", "schedule"}, "an origin is a word of the queue's inside"

    def test_pauses_holds_rights_and_passwords(self) -> None:
        source, user, group = make_source(), make_user(), Group.objects.create(name="operators")
        forget()
        planning.pause(Source.objects.all(), reason="moving house", by="a test")
        backlog.pause_queue("backups", "maintenance")
        backlog.hold("all of it", by="a test")
        user.groups.add(group)
        user.set_password("correct horse battery staple")
        user.save()
        user.is_superuser = True
        user.save()
        names = list(AuditEntry.objects.order_by("pk").values_list("about", "name", "verb"))
        assert names == [
            ("sources.source", source.name, "changed"), ("jobs.pausedqueue", "backups", "created"),
            ("jobs.hold", "everything", "created"), ("auth.user_groups", user.username, "created"),
            ("auth.user", user.username, "changed"), ("auth.user", user.username, "changed"),
        ]  # fmt: skip
        assert seen(about="sources.source")[0][2]["paused_why"] == ["", "moving house"]

    def test_no_secret_is_kept_but_that_it_is_another_one(self) -> None:
        forget()
        store("nas", "swordfish")
        StoredSecret.objects.update(sealed="sword fish")
        endpoint = Endpoint.objects.create(name="hook", url="https://example.org/", headers={"X-Key": "swordfish"})
        Endpoint.objects.filter(pk=endpoint.pk).update(headers={"X-Key": "herring"}, sealed_authorization="swordfish")
        user = User.objects.create_user("eve", password="swordfish in the sea")
        ApiToken.objects.create(name="grafana", user=user, scopes=["read"], digest="d1")
        kept = json.dumps(list(AuditEntry.objects.values("before", "after")))
        for secret in ("swordfish", "sword fish", "herring", user.password, "d1"):
            assert secret not in kept
        assert seen(about="delivery.endpoint", verb="created")[0][2]["headers"] == [None, "(hidden)"]
        changed = seen(about="delivery.endpoint", verb="changed")[0][2]
        assert changed["headers"] == ["(hidden)", "(hidden, another one)"]
        assert changed["sealed_authorization"][1] == "(hidden, another one)"
        assert seen(about="delivery.storedsecret", verb="changed")[0][2]["sealed"][0] == "(hidden)"

    def test_what_machines_move_is_not_seen_and_costs_no_question(self) -> None:
        assignment = make_assignment()
        forget()
        now = timezone.now()
        Source.objects.update(checked_in_at=now, last_woken_at=now, wakes=3)
        Assignment.objects.update(failures=2, next_backup_at=now)
        Schedule.objects.update(next_trigger_at=now)
        Policy.objects.update(chance_over_at=now)
        User.objects.update(last_login=now)
        assert seen() == [], assignment
        assert not may_fire('UPDATE "sources_source" SET "checked_in_at" = %s WHERE "sources_source"."id" = 1')
        assert not may_fire("UPDATE jobs_backlogrecord SET status = 3 WHERE id = 1")
        assert may_fire('WITH x AS (SELECT 1) UPDATE "sources_source" SET "port" = 5')
        assert may_fire('DELETE FROM "sources_source" WHERE id = 1')

    def test_no_hot_table_is_followed_and_each_declared_one_is(self) -> None:
        hot = {"backlogrecord", "attempt", "decision", "worker", "breaker", "lane"}
        assert not {f"jobs_{name}" for name in hot} & followed.keys()
        for service in SECTIONS.values():
            assert service.model._meta.db_table in followed
        assert {Origin._meta.db_table, "delivery_storedsecret", "auth_user", "jobs_hold"} <= followed.keys()
        assert triggers.missing() == []

    def test_an_edit_that_changes_nothing_is_no_entry(self) -> None:
        throttle = make_throttle(5)
        forget()
        throttle.save()
        assert seen() == []


class TestCommand:
    def test_lists_since_by_name_and_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        throttle = make_throttle(5)
        with acting(lambda: ALICE):
            Throttle.objects.filter(pk=throttle.pk).update(max_in_flight=6)
        call_command("audit", "list", "--since", "1h", "--name", throttle.name, "--who", "alice", "--json")
        [found] = json.loads(capsys.readouterr().out)
        assert (found["who"], found["via"], found["about"], found["verb"]) == ("alice", "web", "throttle", "changed")
        assert found["changes"] == {"max_in_flight": [5, 6]}
        call_command("audit", "--since", "1h")
        assert "max in flight 5 → 6" in " ".join(capsys.readouterr().out.split())

    def test_says_what_is_wrong_and_when_there_is_nothing(self) -> None:
        forget()
        for arguments, code in ((["--since", "yesterday"], 2), (["--limit", "0"], 2), (["--since", "1h"], 1)):
            with pytest.raises(CommandError) as error:
                call_command("audit", *arguments, stdout=io.StringIO())
            assert error.value.returncode == code

    @pytest.mark.slow
    @pytest.mark.django_db(transaction=True)
    def test_a_command_names_the_system_user_and_its_host(self, tmp_path: Path) -> None:
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text("throttles:\n  - {name: slow, max_in_flight: 3}\n")
        command = [sys.executable, "manage.py", "apply", str(fleet), "--yes"]
        subprocess.run(command, check=True, env={**os.environ, "DATABASE_URL": database_url()})
        [entry] = AuditEntry.objects.filter(about="jobs.throttle", name="slow")
        assert entry.via == "command apply"
        assert "@" in entry.who


def test_the_api_lists_it_for_who_may_look() -> None:
    throttle = make_throttle(5)
    forget()
    with acting(lambda: ALICE):
        Throttle.objects.filter(pk=throttle.pk).update(max_in_flight=6)
    program = Program(make_user("view_auditentry"))
    [item] = program.get("audit", who="alice", about="jobs.throttle").json()["items"]
    assert (item["about"], item["row_id"], item["changes"]) == (
        "jobs.throttle",
        str(throttle.pk),
        {"max_in_flight": [5, 6]},
    )
    assert Program(make_user()).get("audit").status_code == 403


def test_the_page_lists_it_for_who_may_look() -> None:
    make_throttle(5)
    assert staff().get("/admin/audit/auditentry/").status_code == 403
    page = staff("view_auditentry").get("/admin/audit/auditentry/").content.decode()
    assert "max in flight 5" in page
