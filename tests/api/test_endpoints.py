"""Endpoints over the API: secrets go in, and never come out again."""

import pytest

from delivery.models import Endpoint, SigningSecret
from sealing.encryption import unseal
from tests.api.asking import Program, fields_of, made, problem_of
from tests.factories import everything_stored

pytestmark = pytest.mark.django_db

BODY = {"name": "hooks", "url": "https://example.com/hook", "headers": {"X-Tenant": "7"}, "timeout": 10}
SECRET = "Bearer hunter2-and-more"


@pytest.fixture
def path(program: Program) -> str:
    return f"/api/endpoints/{made(program.post('endpoints', BODY | {'authorization': SECRET}))['id']}"


class TestSecrets:
    def test_left_out_it_stays_and_null_takes_it_away(self, program: Program, path: str) -> None:
        for body in ({"timeout": 5}, BODY):
            assert program.patch(path, body).json()["authorization_is_set"] is True
        assert program.patch(path, {"authorization": None}).json()["authorization_is_set"] is False
        assert Endpoint.objects.get().sealed_authorization == ""

    def test_one_that_no_header_holds_is_refused_and_not_repeated(self, program: Program) -> None:
        answer = program.post("endpoints", BODY | {"authorization": f"{SECRET}\nb"})
        assert list(fields_of(answer)) == ["authorization"]
        assert "hunter2" not in answer.content.decode()

    def test_another_one_is_another_etag(self, program: Program, path: str) -> None:
        etag = program.get(path).headers["ETag"]
        assert program.patch(path, {"authorization": "Bearer other"}, If_Match=etag).status_code == 200
        problem_of(program.patch(path, {"authorization": "Bearer third"}, If_Match=etag), 412)

    def test_a_queue_takes_none(self, program: Program) -> None:
        url = "https://sqs.eu-central-1.amazonaws.com/1234/events"
        body = {"name": "queue", "kind": "sqs_message", "url": url, "authorization": SECRET}
        assert list(fields_of(program.post("endpoints", body))) == ["authorization"]

    def test_the_first_signing_secret_is_shown_once_and_stored_in_no_answer(self, program: Program) -> None:
        body = BODY | {"authorization": SECRET}
        first, again = (program.post("endpoints", body, Idempotency_Key="k") for _ in range(2))
        secret = made(first)["signing_secret"]
        assert secret == unseal(SigningSecret.objects.get().sealed)
        assert len(first.json()["signing_secrets"]) == 1
        assert first.json()["warnings"] == [], "it is signed at once"
        assert made(again) == first.json() | {"signing_secret": None}
        assert again.headers["Idempotent-Replayed"] == "true"
        facts = program.get(first.headers["Location"])
        assert facts.headers["ETag"] == first.headers["ETag"] == again.headers["ETag"]
        assert secret not in facts.content.decode() + everything_stored()
        assert "hunter2" not in everything_stored()
        assert first.headers["Cache-Control"] == "no-store"

    def test_a_new_signing_secret_is_shown_once(self, program: Program, path: str) -> None:
        first, second = program.post(f"{path}/rotate", {"keep_for": 60}), program.post(f"{path}/rotate")
        secrets = [made(answer)["secret"] for answer in (first, second)]
        oldest, older, newest = SigningSecret.objects.order_by("pk")
        assert [unseal(each.sealed) for each in (older, newest)] == secrets
        assert (oldest.retires_at - older.created_at).total_seconds() == 60
        assert (older.retires_at - newest.created_at).total_seconds() == 86_400
        facts = program.get(path)
        assert [each["retires_at"] is None for each in facts.json()["signing_secrets"]] == [False, False, True]
        for secret in secrets:
            assert secret not in facts.content.decode() + everything_stored()
        assert first.headers["Cache-Control"] == "no-store"

    def test_a_queue_has_no_signing_secret(self, program: Program) -> None:
        url = "https://sqs.eu-central-1.amazonaws.com/1234/events"
        facts = made(program.post("endpoints", {"name": "queue", "kind": "sqs_message", "url": url}))
        assert facts["signing_secret"] is None
        problem_of(program.post(f"endpoints/{facts['id']}/rotate", {}), 409)


class TestEditing:
    def test_its_kind_stays(self, program: Program, path: str) -> None:
        assert list(fields_of(program.patch(path, {"kind": "sqs_message"}))) == ["kind"]
        assert program.patch(path, {"kind": "http_callback"}).status_code == 200

    def test_its_own_secrets_go_with_it(self, program: Program, path: str) -> None:
        program.post(f"{path}/rotate", {})
        assert program.delete(path).status_code == 204
        assert not SigningSecret.objects.exists()
