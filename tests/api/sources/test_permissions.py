"""Who may do what with sources, policies and what belongs to them: the scopes of a token, and its user."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from api.models import ApiToken
from jobs.models import BacklogRecord
from sources.models import Assignment, Policy, Repository, Source
from tests.api.asking import Program, make_user, problem_of
from tests.api.sources.agents import Agent
from tests.api.sources.making import add_backup
from tests.sources.factories import make_assignment, make_policy

pytestmark = pytest.mark.django_db

READING = ("sources", "policies", "assignments", "repositories", "backups")
OPERATING = ("back-up-now", "pause", "resume", "check-in")
ENROLLING = ("enrolment-code", "revoke-tokens")


@pytest.fixture
def assignment(tmp_path: Path) -> Assignment:
    found = make_assignment(make_policy(repository=Repository.objects.create(name="vault", location=str(tmp_path))))
    add_backup(found)
    return found


def changes(assignment: Assignment) -> list[tuple[str, str, str, Any]]:
    """(permission, method, path, body) of everything that writes."""
    source, policy, repository = assignment.source_id, assignment.policy_id, assignment.policy.repository_id
    location = assignment.policy.repository.location
    return [
        ("add_source", "POST", "sources", {"name": "a", "kind": "local", "path": "/a"}),
        ("change_source", "PATCH", f"sources/{source}", {"path": "/b"}),
        ("delete_source", "DELETE", f"sources/{source}", None),
        ("change_source", "POST", f"sources/{source}/enrolment-code", None),
        ("change_source", "POST", f"sources/{source}/revoke-tokens", None),
        ("add_policy", "POST", "policies", {"name": "p", "cron": "0 9 * * *", "repository": repository}),
        ("change_policy", "PATCH", f"policies/{policy}", {"priority": 3}),
        ("delete_policy", "DELETE", f"policies/{policy}", None),
        ("add_assignment", "POST", "assignments", {"source": source, "policy": policy}),
        ("delete_assignment", "DELETE", f"assignments/{assignment.pk}", None),
        ("add_repository", "POST", "repositories", {"name": "r", "location": f"{location}-r"}),
        ("change_repository", "PATCH", f"repositories/{repository}", {"name": "r"}),
        ("delete_repository", "DELETE", f"repositories/{repository}", None),
    ]


def operations(assignment: Assignment) -> list[str]:
    """Paths of what operates."""
    of_source = [f"sources/{assignment.source_id}/{each}" for each in OPERATING]
    return [*of_source, f"policies/{assignment.policy_id}/back-up-now", f"assignments/{assignment.pk}/back-up-now"]


def stored() -> list[Any]:
    """What no refused request may have changed."""
    models: Any = (Source, Policy, Repository, Assignment, BacklogRecord)
    return [list(model.objects.order_by("pk").values()) for model in models]


class TestReading:
    def test_each_list_needs_its_own_permission(self, assignment: Assignment) -> None:
        singular = {"policies": "policy", "repositories": "repository"}
        for name in READING:
            program = Program(make_user(f"view_{singular.get(name, name[:-1])}"))
            answers = {each: program.get(each).status_code for each in READING}
            assert answers == {each: 200 if each == name else 403 for each in READING}

    def test_who_may_change_may_look(self, assignment: Assignment) -> None:
        program = Program(make_user("change_source"))
        assert program.get("sources").status_code == 200
        problem_of(program.get("policies"), 403)

    def test_a_token_that_may_only_write_may_not_read(self, assignment: Assignment) -> None:
        program = Program(scopes=("write", "operate"))
        for name in READING:
            assert "scope `read`" in problem_of(program.get(name), 403)["detail"]

    def test_a_preview_needs_to_see_policies(self, assignment: Assignment) -> None:
        path = f"policies/{assignment.policy}/preview"
        problem_of(Program(make_user("view_source")).get(path), 403)
        assert Program(make_user("view_policy")).get(path).status_code == 200


class TestWriting:
    def test_without_the_scope_nothing_is_written(self, assignment: Assignment) -> None:
        program, before = Program(scopes=("read", "operate")), stored()
        for _, method, path, body in changes(assignment):
            facts = problem_of(program.ask(method, path, body), 403)
            assert "scope `write`" in facts["detail"], (method, path)
        assert stored() == before

    def test_without_the_permission_nothing_is_written(self, assignment: Assignment) -> None:
        before = stored()
        for permission, method, path, body in changes(assignment):
            others = {each for each, *_ in changes(assignment)} - {permission}
            problem_of(Program(make_user(*others)).ask(method, path, body), 403)
        assert stored() == before

    def test_with_both_no_request_is_refused_for_its_user(self, assignment: Assignment) -> None:
        for permission, method, path, body in changes(assignment):
            answer = Program(make_user(permission), scopes=("write",)).ask(method, path, body)
            assert answer.status_code in (200, 201, 204, 409, 422), (method, path, answer.content)


class TestOperating:
    def test_without_the_scope_nothing_is_done(self, assignment: Assignment) -> None:
        program, before = Program(scopes=("read", "write")), stored()
        for path in operations(assignment):
            assert "scope `operate`" in problem_of(program.post(path), 403)["detail"], path
        assert stored() == before

    def test_without_the_permission_nothing_is_done(self, assignment: Assignment) -> None:
        program, before = Program(make_user("view_source", "change_policy", "change_assignment")), stored()
        for path in operations(assignment):
            problem_of(program.post(path), 403)
        assert stored() == before

    def test_with_both_it_is(self, assignment: Assignment) -> None:
        program = Program(make_user("change_source"), scopes=("operate",))
        Source.objects.update(paused_at=timezone.now())
        assert program.post(f"sources/{assignment.source_id}/resume").status_code == 200
        for path in operations(assignment):
            if not path.endswith("pause"):
                assert program.post(path).status_code == 200, path

    @pytest.mark.parametrize("action", ENROLLING)
    def test_who_may_only_operate_gets_no_credentials(self, action: str, assignment: Assignment) -> None:
        program = Program(scopes=("read", "operate"))
        problem_of(program.post(f"sources/{assignment.source_id}/{action}"), 403)


class TestTokens:
    def everywhere(self, assignment: Assignment) -> list[tuple[str, str, Any]]:
        written = [(method, path, body) for _, method, path, body in changes(assignment)]
        return [
            *written,
            *(("GET", each, None) for each in READING),
            *(("POST", p, None) for p in operations(assignment)),
        ]

    @pytest.mark.parametrize("ended", ["revoked", "expired", "its user left"])
    def test_an_ended_one_is_refused_everywhere(self, ended: str, assignment: Assignment) -> None:
        program, before = Program(), stored()
        assert program.get("sources").status_code == 200
        if ended == "its user left":
            type(program.user).objects.update(is_active=False)
        else:
            ApiToken.objects.update(**{"revoked_at" if ended == "revoked" else "expires_at": timezone.now()})
        answers = [program.ask(*each) for each in self.everywhere(assignment)]
        assert {answer.status_code for answer in answers} <= {401, 429}
        assert stored() == before

    def test_an_agents_token_is_not_a_persons(self, assignment: Assignment) -> None:
        agent, before = Agent(assignment.source), stored()
        for method, path, body in self.everywhere(assignment)[:15]:
            problem_of(Program().ask(method, path, body, Authorization=f"Bearer {agent.token}"), 401)
        assert stored() == before

    def test_a_persons_token_is_not_an_agents(self) -> None:
        program = Program()
        for method, path in (("POST", "check-in"), ("GET", "agent/status"), ("POST", "agent/rotate")):
            problem_of(program.ask(method, path, {} if method == "POST" else None), 401)

    def test_a_token_counts_for_its_own_user_whatever_session_is_beside_it(self, assignment: Assignment) -> None:
        browser = Client()
        browser.force_login(make_user(is_superuser=True))
        program = Program(make_user("view_policy"))
        program.client = browser
        problem_of(program.get("sources"), 403)
        assert program.get("policies").status_code == 200

    def test_a_session_changes_nothing_without_the_csrf_token(self, assignment: Assignment) -> None:
        browser, before = Client(enforce_csrf_checks=True), stored()
        browser.force_login(make_user(is_superuser=True))
        assert browser.get("/api/sources").status_code == 200
        for path in operations(assignment):
            problem_of(browser.post(f"/api/{path}", content_type="application/json"), 403)
        assert stored() == before

    def test_who_is_not_staff_sees_nothing(self, assignment: Assignment) -> None:
        program = Program(make_user(is_staff=False, is_superuser=True))
        for name in READING:
            problem_of(program.get(name), 403)
