"""Rules for every resource, shown with throttles: keys by which a request is answered once, and scopes."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from api.models import IdempotencyKey
from api.old_rows import prune
from jobs.clock import database_clock
from jobs.models import Throttle
from tests.api.asking import Program, fields_of, make_user, problem_of
from tests.factories import NOON, make_throttle

pytestmark = pytest.mark.django_db

BODY = {"name": "hooks", "max_in_flight": 5, "rate": 2.5, "burst": 10}


class TestIdempotencyKeys:
    def test_the_same_request_gets_the_same_answer_and_creates_once(self, program: Program) -> None:
        first, second = (program.post("throttles", BODY, Idempotency_Key="k-1") for _ in range(2))
        assert (second.status_code, second.content) == (201, first.content)
        for header in ("Location", "ETag", "Content-Type"):
            assert second.headers[header] == first.headers[header]
        assert (second.headers.get("Idempotent-Replayed"), first.headers.get("Idempotent-Replayed")) == ("true", None)
        assert Throttle.objects.count() == 1
        stored = IdempotencyKey.objects.get()
        assert (stored.status, len(stored.request_digest)) == (201, 64), "no one guesses from it what was sent"
        for change in ({"rate": 3.5}, {"name": "other"}):
            refused = program.post("throttles", BODY | change, Idempotency_Key="k-1")
            assert list(fields_of(refused)) == ["Idempotency-Key"]
        assert Program().post("throttles", BODY | {"name": "other"}, Idempotency_Key="k-1").status_code == 201

    def test_who_was_refused_may_send_something_better_with_it(self, program: Program) -> None:
        problem_of(program.post("throttles", BODY | {"rate": 0}, Idempotency_Key="k-1"), 422)
        assert program.post("throttles", BODY, Idempotency_Key="k-1").status_code == 201

    @pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
    def test_what_is_no_key_is_refused(self, key: str, program: Program) -> None:
        assert list(fields_of(program.post("throttles", BODY, Idempotency_Key=key))) == ["Idempotency-Key"]
        assert not Throttle.objects.exists()

    def test_after_a_day_a_key_is_as_good_as_new_and_forgotten(self, program: Program) -> None:
        program.post("throttles", BODY, Idempotency_Key="k-1")
        IdempotencyKey.objects.update(created_at=database_clock() - timedelta(hours=24))
        answer = program.post("throttles", BODY | {"name": "other"}, Idempotency_Key="k-1")
        assert (answer.status_code, answer.headers.get("Idempotent-Replayed")) == (201, None)
        program.post("throttles", BODY | {"name": "third"}, Idempotency_Key="k-2")
        IdempotencyKey.objects.filter(key="k-1").update(created_at=NOON)
        assert prune(NOON + timedelta(hours=23, minutes=59)) == 0
        assert prune(NOON + timedelta(hours=24)) == 1
        assert IdempotencyKey.objects.get().key == "k-2"


class TestWhoMay:
    @pytest.mark.parametrize(
        ("method", "path", "verb", "scope"),
        [
            ("GET", "throttles", "view", "read"), ("GET", "throttles/{}", "view", "read"),
            ("POST", "throttles", "add", "write"), ("PATCH", "throttles/{}", "change", "write"),
            ("DELETE", "throttles/{}", "delete", "write"),
        ],
    )  # fmt: skip
    def test_scope_and_permission_are_both_needed(self, method: str, path: str, verb: str, scope: str) -> None:
        throttle = make_throttle(1)
        body = BODY if method in ("POST", "PATCH") else None
        path = path.format(throttle.pk)
        others = tuple(each for each in ("read", "write", "operate") if each != scope)
        permissions = [f"{each}_throttle" for each in ("view", "add", "change", "delete")]
        without = [each for each in permissions if not each.startswith((verb, "change" if verb == "view" else verb))]
        problem_of(Program(make_user(*permissions), others).ask(method, path, body), 403)
        problem_of(Program(make_user(*without)).ask(method, path, body), 403)
        assert Throttle.objects.get() == throttle
        allowed = Program(make_user(f"{verb}_throttle"), (scope,)).ask(method, path, body)
        assert allowed.status_code < 300, allowed.content

    def test_a_session_may_without_a_scope_but_with_its_csrf_token(self) -> None:
        user = make_user("add_throttle")
        for strict, status in ((False, 201), (True, 403)):
            client = Client(enforce_csrf_checks=strict)
            client.force_login(user)
            answer = client.post("/api/throttles", BODY | {"name": str(strict)}, content_type="application/json")
            assert answer.status_code == status, answer.content

    def test_without_a_login_or_without_being_staff_nothing_is_allowed(self) -> None:
        problem_of(Client().get("/api/throttles"), 401)
        problem_of(Client().post("/api/throttles", BODY, content_type="application/json"), 401)
        problem_of(Program(make_user(is_staff=False, is_superuser=True)).get("throttles"), 403)
        assert User.objects.count() == 1
