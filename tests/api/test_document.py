"""The OpenAPI document: true of each operation, readable, and with a page for staff."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from pydantic import BaseModel

from api.auth import Staff
from api.document import ALWAYS, OF_AUTH
from api.models import Scope
from api.root import api
from backups.restores.requests import MAY_RESTORE
from declarations.surfaces.web.permissions import may_operate
from sources.declarations.reach import SET_SECRET
from tests.api.asking import Program, fields_of, make_user, problem_of
from tests.product import PACKAGES

pytestmark = pytest.mark.django_db

DOCUMENT: dict[str, Any] = {}


@pytest.fixture
def document() -> dict[str, Any]:
    if not DOCUMENT:
        DOCUMENT.update(Program().get("openapi.json").json())
    return DOCUMENT


@pytest.fixture
def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The operations, by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def resolved(document: dict[str, Any], part: Any) -> Any:
    while isinstance(part, dict) and "$ref" in part:
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def references(part: Any) -> set[str]:
    if isinstance(part, dict):
        here = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
        return here.union(*(references(each) for each in part.values()))
    return set().union(*(references(each) for each in part)) if isinstance(part, list) else set()


def test_each_operation_has_a_name_of_its_own_a_tag_and_words(operations: dict[str, dict[str, Any]]) -> None:
    names = [operation["operationId"] for operation in operations.values()]
    assert len(names) == len(set(names))
    for name, operation in operations.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", operation["operationId"]), name
        assert name.split()[0] in ("GET", "POST", "PATCH", "DELETE"), name
        assert operation["tags"], name
        assert operation["summary"], name
        assert "x-has" not in operation, name


def test_every_reference_leads_somewhere_and_each_operation_names_the_problems_that_it_may_meet(
    document: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    assert {401, 403, 422, 429, 503} <= {*ALWAYS, *OF_AUTH}
    for reference in references(document):
        assert reference.startswith("#/components/"), reference
        assert resolved(document, {"$ref": reference}), reference
    for name, operation in operations.items():
        answers = {int(status): resolved(document, answer) for status, answer in operation["responses"].items()}
        expected = {*ALWAYS, *(OF_AUTH if operation.get("security") else ()), *([404] if "{" in name else ())}
        assert expected <= set(answers), name
        assert any(status < 300 for status in answers), name
        if name == "POST /api/check-in":
            assert set(answers) == {200, 400, 401, 403, 411, 413, 415, 422, 429, 503}
        for status, answer in answers.items():
            kinds = set(answer.get("content", {}))
            wanted = {"application/problem+json"} if status >= 400 else {"application/json"}
            assert kinds == (set() if status == 204 else wanted), (name, status)


def test_who_may_is_said_with_the_scope(document: dict[str, Any], operations: dict[str, dict[str, Any]]) -> None:
    assert set(document["components"]["securitySchemes"]) == {"session", "token", "agent"}
    scopes = {
        "GET /api/schedules": "read",
        "POST /api/schedules": "write",
        "POST /api/schedules/plan": "read",
        "POST /api/schedules/{schedule_id}/trigger": "operate",
        "DELETE /api/throttles/{throttle_id}": "write",
    }
    for name, scope in scopes.items():
        assert operations[name]["security"] == [{"session": []}, {"token": [scope]}]
    assert operations["POST /api/check-in"]["security"] == [{"agent": []}]
    assert [name for name, each in operations.items() if not each.get("security")] == ["POST /api/enrol"]


def kinds_of(schema: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in schema.__subclasses__():
        yield each
        yield from kinds_of(each)


def test_no_two_shapes_share_a_name() -> None:
    """Each name once: in the document the one would replace the other."""
    names = Counter(each.__name__ for each in set(kinds_of(BaseModel)) if each.__module__.split(".")[0] in PACKAGES)
    assert len(names) > 50
    assert [name for name, count in names.items() if count > 1] == []


OPERATES = ("accept", "check", "copy", "drill")
APP = {
    "sources": "sources", "policies": "sources", "repositories": "sources", "assignments": "sources",
    "schedules": "schedules", "throttles": "jobs", "endpoints": "delivery", "retry-policies": "jobs",
    "alert-routes": "alerting",
}  # fmt: skip
"""Operations on edited resources; every other change needs the scope that operates records."""
MODEL = {"policies": "policy", "repositories": "repository", "retry-policies": "retrypolicy",
         "alert-routes": "alertroute"}  # fmt: skip


def test_each_operation_takes_the_permission_of_what_it_changes() -> None:
    seen = 0
    for path, views in ((path, views) for _, router in api._routers for path, views in router.path_operations.items()):
        for operation in views.operations:
            for auth in operation.auth_callbacks:
                if not isinstance(auth, Staff) or auth.scope in (Scope.READ, None):
                    continue
                _, of, *rest = path.split("/")
                verb = {"POST": "add", "PATCH": "change", "DELETE": "delete"}[operation.methods[0]]
                if rest and not rest[-1].startswith("{"):  # an operation of its own, as /pause
                    verb, of = "change", "sources" if rest[-1] == "back-up-now" else of
                operates = (of, auth.scope) == ("schedules", Scope.OPERATE) or (rest[-1:] and rest[-1] in OPERATES)
                edits = of in APP and not operates
                wanted = f"{APP.get(of)}.{verb}_{MODEL.get(of, of[:-1])}" if edits else may_operate
                wanted = {"restores": MAY_RESTORE, "stored-secrets": SET_SECRET}.get(of, wanted)
                assert auth.allowed == (wanted,), (operation.methods, path)
                seen += 1
    assert seen > 40


def test_updates_take_if_match_and_creates_a_key(operations: dict[str, dict[str, Any]]) -> None:
    def headers(name: str) -> set[str]:
        return {each["name"] for each in operations[name]["parameters"] if each["in"] == "header"}

    one = "/api/throttles/{throttle_id}"
    assert {name: headers(f"{name} {one}") for name in ("GET", "PATCH", "DELETE")} == {
        "GET": set(), "PATCH": {"If-Match"}, "DELETE": {"If-Match"},
    }  # fmt: skip
    assert headers("POST /api/throttles") == {"Idempotency-Key"}
    assert "412" in operations[f"DELETE {one}"]["responses"]
    assert "412" not in operations["POST /api/throttles"]["responses"]
    assert set(operations["POST /api/throttles"]["responses"]["201"]["headers"]) == {
        "ETag", "Location", "Idempotent-Replayed",
    }  # fmt: skip


def test_patches_require_nothing_bodies_refuse_what_they_do_not_know_and_no_answer_has_a_secret(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    assert "required" not in schemas["ThrottlePatch"]
    assert schemas["ThrottleDeclaration"]["required"] == ["name", "max_in_flight"]
    for name in (
        "ThrottleDeclaration",
        "ThrottlePatch",
        "ScheduleDeclaration",
        "EndpointWithAuthorization",
        "RetryRequest",
    ):
        assert schemas[name]["additionalProperties"] is False, name
    for name in ("EndpointAnswer", "SavedEndpointAnswer", "StoredSecretAnswer", "SavedStoredSecretAnswer"):
        assert not set(schemas[name]["properties"]) & {"authorization", "sealed_authorization", "secret", "value"}, name


def test_what_is_not_described_is_refused_as_a_problem() -> None:
    program = Program()
    for asked in (
        "DELETE me", "PUT schedules", "PUT throttles/1", "POST records/1", "POST backups", "DELETE backups/1",
        "PATCH assignments/1", "PATCH restores/1", "DELETE restores/1",
    ):  # fmt: skip
        answer = program.ask(*asked.split())
        problem_of(answer, 405)
        assert answer.headers["Allow"], asked
    problem_of(program.get("x"), 404)


def test_the_page_is_for_staff_and_tries_with_their_csrf_token() -> None:
    assert Client().get("/api/docs").status_code == 302
    client = Client()
    client.force_login(make_user())
    page = client.get("/api/docs")
    assert page.status_code == 200
    assert re.search(r'data-csrf-token="\w{20,}"', page.content.decode())
    assert '<link rel="icon" type="image/svg+xml" href="/static/backupsched/favicon.svg">' in page.content.decode()
    assert "http" not in re.sub(
        r"https?://testserver", "", " ".join(re.findall(r'src="([^"]*)"', page.content.decode()))
    )


def test_an_address_with_an_unknown_parameter_or_one_sent_twice_is_refused() -> None:
    program = Program()
    for asked in ("GET me", "GET schedules", "POST queues/default/resume"):
        assert list(fields_of(program.ask(*f"{asked}?dry_run=1".split()))) == ["dry_run"]
    assert fields_of(program.get("throttles?limit=1&name=x&limit=1")) == {"limit": "is sent more than once"}
