"""Two who change the same thing at the same moment, each in a transaction of its own."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.signals import connection_created

from api import edits
from audit.models import AuditEntry
from backupsched.management.commands import web
from sources.models import Assignment, Policy, Repository, Source
from tests.api.asking import Program, fields_of, problem_of
from tests.api.sources.agents import Agent
from tests.factories import install_presets
from tests.sources.factories import make_policy, make_source
from tests.threads import a_lock_is_waited_for, at_once, beside
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _presets() -> Iterator[None]:
    yield
    install_presets()


@pytest.fixture
def programs() -> tuple[Program, Program]:
    """Two tokens of two superusers; what the server fails at is an answer."""
    found = Program(), Program()
    for program in found:
        program.client.raise_request_exception = False
    return found


def test_a_locked_row_holds_up_a_thread_of_the_web_server_for_some_seconds_only(
    programs: tuple[Program, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "LOCK_SECONDS", 0.2)
    agent = Agent()
    web.limit_lock_waits()
    try:
        with transaction.atomic():
            Source.objects.select_for_update().get()
            refused = [
                beside(lambda: agent.check_in(hostname="new")).result(PATIENCE),
                beside(lambda: programs[0].patch(f"sources/{agent.source.pk}", {"path": "/b"})).result(PATIENCE),
            ]
    finally:
        connection_created.disconnect(dispatch_uid=web.__name__)
    for answer in refused:
        assert problem_of(answer, 503)["detail"] == "another change to it did not end in time"
        assert answer.headers["Retry-After"] == "10"
    assert agent.check_in(hostname="new").status_code == 200


class TestIfMatch:
    def test_of_two_changes_of_a_policy_and_its_schedule_too(self, programs: tuple[Program, Program]) -> None:
        policy = make_policy()
        path = f"policies/{policy.pk}"
        etag = programs[0].get(path).headers["ETag"]
        one, other = programs
        answers = at_once(
            lambda: one.patch(path, {"cron": "0 1 * * *"}, If_Match=etag),
            lambda: other.patch(path, {"keep": {}}, If_Match=etag),
        )
        assert sorted(answer.status_code for answer in answers) == [200, 412]
        policy = Policy.objects.select_related("schedule").get()
        assert (policy.schedule.cron == "0 1 * * *") != (policy.keep == {})

    def test_a_deletion_and_a_change_do_not_both_go_through(self, programs: tuple[Program, Program]) -> None:
        source = make_source()
        path = f"sources/{source.pk}"
        etag = programs[0].get(path).headers["ETag"]
        one, other = programs
        deleted, changed = at_once(
            lambda: one.delete(path, If_Match=etag), lambda: other.patch(path, {"path": "/b"}, If_Match=etag)
        )
        assert (deleted.status_code, changed.status_code) in {(204, 404), (412, 200)}
        assert Source.objects.exists() == (changed.status_code == 200)


class TestCreating:
    def test_of_two_policies_of_one_name_one_is_made_with_one_schedule(self, programs: tuple[Program, Program]) -> None:
        repository = Repository.objects.create(name="vault", location="/srv/backups")
        body = {"name": "twin", "cron": "0 9 * * *", "repository": repository.name}
        one, other = programs
        answers = at_once(lambda: one.post("policies", body), lambda: other.post("policies", body))
        assert sorted(answer.status_code for answer in answers) == [201, 422]
        [late] = [answer for answer in answers if answer.status_code == 422]
        assert list(fields_of(late)) == ["name"]
        assert Policy.objects.count() == 1

    def test_of_two_equal_assignments_one_is_made(self, programs: tuple[Program, Program]) -> None:
        body = {"source": make_source().pk, "policy": make_policy().pk}
        one, other = programs
        answers = at_once(lambda: one.post("assignments", body), lambda: other.post("assignments", body))
        assert sorted(answer.status_code for answer in answers) == [201, 422]
        assert Assignment.objects.count() == 1

    def test_its_policy_cannot_go_once_it_is_saved(
        self, programs: tuple[Program, Program], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The entry in the audit names the policy, which is named by its schedule."""
        policy, source = make_policy(), make_source()
        one, other = programs
        write, deleted = edits.write, []

        def and_delete(*given: Any) -> Any:
            edit = write(*given)
            deleted.append(beside(lambda: one.delete(f"policies/{policy.pk}")))
            eventually(lambda: deleted[0].done() or a_lock_is_waited_for())
            return edit

        monkeypatch.setattr(edits, "write", and_delete)
        assert other.post("assignments", {"source": source.pk, "policy": policy.pk}).status_code == 201
        problem_of(deleted[0].result(PATIENCE), 409)
        assert AuditEntry.objects.get(about="sources.assignment").name == f"{source.name} under {policy.schedule.name}"

    def test_one_to_a_policy_whose_deletion_was_not_committed_yet(self, programs: tuple[Program, Program]) -> None:
        policy, source = make_policy(), make_source()
        body = {"source": source.pk, "policy": policy.pk}
        with transaction.atomic():
            policy.delete()
            made = beside(lambda: programs[0].post("assignments", body))
            eventually(a_lock_is_waited_for)
        problem_of(made.result(), 409, 422)
        assert not Assignment.objects.exists()

    def test_the_deletion_of_a_policy_that_has_just_got_a_source(self, programs: tuple[Program, Program]) -> None:
        policy, source = make_policy(), make_source()
        with transaction.atomic():
            Assignment.objects.create(source=source, policy=policy)
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            deleted = beside(lambda: programs[0].delete(f"policies/{policy.pk}"))
            eventually(a_lock_is_waited_for)
        problem_of(deleted.result(), 409)
        assert Assignment.objects.exists()
