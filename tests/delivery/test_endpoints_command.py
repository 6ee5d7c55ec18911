"""`manage.py endpoints`: making, changing, testing and removing them; what is secret stays off the command line."""

import io
import json

import pytest

from delivery.models import Endpoint, SigningSecret
from jobs.models import BacklogRecord
from jobs.outcomes import Failed, Succeeded
from sealing.encryption import unseal
from tests.commands import command
from tests.delivery.endpoint_rows import QUEUE_URL, a_worker_delivers, make_endpoint, make_queue_endpoint, sealed
from tests.schedules.event_records import make_event_schedule

pytestmark = pytest.mark.django_db

URL = "https://example.com/hooks"


run, refused = command("endpoints")


class TestListAndShow:
    def test_a_line_each(self) -> None:
        make_event_schedule(endpoint=make_endpoint(**sealed()))
        make_queue_endpoint()
        lines = [line.split() for line in run().splitlines()]
        assert ["hooks", "http_callback", URL, "set", "0", "1"] in lines
        assert ["queue", "sqs_message", QUEUE_URL, "not", "set", "0", "0"] in lines

    def test_show_has_everything_but_what_is_secret(self) -> None:
        endpoint = make_endpoint(headers={"X-Tenant": "7"}, **sealed("Bearer sesame"))
        secret = run("rotate", "hooks").strip()
        for shown in (run("show", "hooks"), run("show", "hooks", "--json")):
            assert "X-Tenant" in shown
            assert "in use" in shown
            assert not [each for each in ("sesame", endpoint.sealed_authorization, secret) if each in shown]


class TestAddAndSet:
    def test_add_makes_one_and_prints_the_first_signing_secret_once_and_none_of_a_queue(self) -> None:
        output = run("add", "hooks", URL, "--timeout", "7s", "--set", 'headers={"X-Tenant": "7"}')
        endpoint = Endpoint.objects.get()
        assert (endpoint.kind, endpoint.timeout, endpoint.headers) == ("http_callback", 7, {"X-Tenant": "7"})
        secret = unseal(endpoint.signing_secrets.get().sealed)
        assert "hooks was added" in output
        assert f"shown this once: {secret}" in output
        assert secret not in run("show", "hooks") + run("set", "hooks", "--timeout", "7", "--json")
        facts = json.loads(run("add", "others", URL, "--json"))
        assert facts["signing_secret"] == unseal(SigningSecret.objects.latest("pk").sealed)
        assert facts["secrets"] == 1
        assert "signing secret" not in run("add", "q", QUEUE_URL, "--kind", "sqs_message", "--region", "eu-west-1")

    def test_authorization_comes_from_standard_input_and_is_taken_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        make_endpoint(**sealed())
        monkeypatch.setattr("sys.stdin", io.StringIO("Bearer new\n"))
        run("set", "hooks", "--authorization-file", "-")
        assert unseal(Endpoint.objects.get().sealed_authorization) == "Bearer new"
        run("set", "hooks", "--no-authorization")
        assert Endpoint.objects.get().sealed_authorization == ""


def test_rotate_prints_the_secret_alone_and_keeps_the_others_for_as_long_as_asked() -> None:
    endpoint = make_endpoint()
    secret = run("rotate", "hooks").strip()
    facts = json.loads(run("rotate", "hooks", "--keep-for", "60", "--json"))
    first, second = endpoint.signing_secrets.all()
    assert (first.retires_at - second.created_at).total_seconds() == 60
    assert [secret, facts["secret"]] == [unseal(first.sealed), unseal(second.sealed)]


def test_a_test_event_is_described_and_one_that_fails_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    make_endpoint()
    outcomes = [Failed("it answered 500"), *[Succeeded(facts={"status": 204, "seconds": 0.25})] * 2]
    a_worker_delivers(monkeypatch, lambda _: outcomes.pop())
    assert run("test", "hooks") == "delivered: it answered 204 after 0.250 s\n"
    assert json.loads(run("test", "hooks", "--json"))["code"] == 204
    shown = refused("test", "hooks", code=1)
    latest = BacklogRecord.objects.latest("pk").pk
    assert f"not delivered: it answered 500 (`manage.py backlog show {latest}`)" in shown
