"""Asking the API: as a program with a token, and what a problem document looks like."""

import json
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client

from api import tokens

ALL = ("read", "write", "operate")


def make_user(*permissions: str, name: str = "user", **fields: Any) -> User:
    """A new member of staff with these permissions; the first one is `user 0`."""
    user = User.objects.create_user(f"{name} {User.objects.count()}", **({"is_staff": True} | fields))
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


class Program:
    """A client with a token of `user` (a new superuser, unless given)."""

    def __init__(self, user: User | None = None, scopes: tuple[str, ...] = ALL) -> None:
        self.user = user or make_user(is_superuser=True)
        self.issued = tokens.issue(self.user, "a program", scopes)
        self.client = Client()

    def ask(self, method: str, path: str, body: Any = None, query: dict[str, Any] | None = None, **headers: str) -> Any:
        """The answer. `path`: below /api/, or whole. `body` is sent as JSON (text as it is), `If_Match` as If-Match."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent.setdefault("Authorization", f"Bearer {self.issued.text}")
        content = body if isinstance(body, str | bytes) else "" if body is None else json.dumps(body)
        whole = path if path.startswith("/") else f"/api/{path}"
        return self.client.generic(
            method, whole, content, content_type="application/json", headers=sent, query_params=query
        )

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, query=query)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.ask("POST", path, body, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> Any:
        return self.ask("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self.ask("DELETE", path, **headers)


def problem_of(answer: Any, *statuses: int) -> dict[str, Any]:
    """The problem document of an answer, which has exactly that shape."""
    assert answer.headers["Content-Type"] == "application/problem+json", (answer.status_code, answer.content)
    found: dict[str, Any] = json.loads(answer.content)
    assert answer.status_code in (statuses or range(400, 600)), found
    expected = {"type", "title", "status", "detail", "hint"} | ({"errors"} if answer.status_code == 422 else set())
    assert set(found) - {"instance"} - ({"errors"} if answer.status_code == 400 else set()) == expected
    assert all(isinstance(found[name], str) and found[name] for name in expected - {"status", "errors"})
    assert found["status"] == answer.status_code
    for error in found.get("errors", ()):
        assert sorted(error) == ["field", "message"]
        assert error["message"]
    return found


def fields_of(answer: Any, status: int = 422) -> dict[str, str]:
    """Field → message of a 422, or of another status that names fields."""
    return {error["field"]: error["message"] for error in problem_of(answer, status)["errors"]}


def found(answer: Any) -> Any:
    assert answer.status_code == 200, answer.content
    return answer.json()


def made(answer: Any) -> Any:
    assert answer.status_code == 201, answer.content
    return answer.json()


def ids_of(answer: Any) -> list[int]:
    """The ids of the rows on a page of a list."""
    return [each["id"] for each in found(answer)["items"]]


def check_filters(program: Program, path: str, *expected: tuple[dict[str, Any], Any]) -> None:
    """Each query finds that row alone."""
    for query, row in expected:
        assert ids_of(program.get(path, **query)) == [row.pk], query


def pages_of(program: Program, path: str, **query: Any) -> list[int]:
    """The ids of a list, read in pages of two."""
    ids: list[int] = []
    after: dict[str, int] | None = {}
    while after is not None:
        page = found(program.get(path, limit=2, **query, **after))
        ids += [each["id"] for each in page["items"]]
        after = {"after": page["next"]} if page["next"] else None
    return ids
