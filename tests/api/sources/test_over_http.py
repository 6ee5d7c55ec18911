"""Real HTTP against a real server: from a code to a record that is ready."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from django.core.management import call_command
from django.utils import timezone

from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from sources import planning
from sources.agents import tokens
from sources.models import Source
from tests.api.sources.agents import Agent
from tests.sources.factories import make_assignment, make_source, record_of
from tests.threads import at_once
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def http(live_server: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{live_server.url}/api/", trust_env=False, timeout=PATIENCE) as client:
        yield client


def raw(url: str, head: str, body: bytes = b"") -> bytes:
    """The server's answer to these very bytes, also when it then hangs up on what it did not read."""
    parts = urlsplit(url)
    answer = b""
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE) as connected:
        with suppress(OSError):
            connected.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
            connected.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while chunk := connected.recv(65536):
                answer += chunk
    return answer


def test_from_a_code_to_a_ready_record(http: httpx.Client, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_source(name="laptop")
    assignment = make_assignment(None, source)
    planning.emit_due()
    later = timezone.now() + timedelta(hours=1)
    BacklogRecord.objects.update(status=Status.WAITING, waiting_for=WaitingFor.RECHECK, run_after=later)
    call_command("sources", "enrol", "laptop", "--json")
    code = json.loads(capsys.readouterr().out)["code"]

    enrolled = http.post("enrol", json={"code": code, "hostname": "laptop.local"})
    assert enrolled.status_code == 201
    http.headers["Authorization"] = f"Bearer {enrolled.json()['token']}"
    answer = http.post("check-in", json={"addresses": ["127.0.5.1"], "on_battery": False, "reason": "start"})

    assert answer.status_code == 200
    assert answer.json()["assignments"][0]["backlog"] == "ready"
    assert record_of(assignment).status == Status.READY
    assert Source.objects.get().addresses == ["127.0.5.1", "127.0.0.1"]
    assert http.post("enrol", json={"code": code}).status_code == 401


def test_one_code_redeemed_twice_at_once_makes_one_token(http: httpx.Client) -> None:
    code = tokens.make_code(make_source())
    answers = at_once(*[lambda: http.post("enrol", json={"code": code}).status_code] * 4)
    assert sorted(answers) == [201, 401, 401, 401]


def test_many_check_ins_of_one_source_at_once(http: httpx.Client) -> None:
    agent = Agent()
    make_assignment(None, agent.source)
    headers = {"Authorization": f"Bearer {agent.token}"}
    answers = at_once(*[lambda: http.post("check-in", json={}, headers=headers).status_code] * 8)
    assert set(answers) == {200}
    assert BacklogRecord.objects.unfinished().count() == 1


@pytest.mark.parametrize(
    ("header", "body", "status"),
    [
        ("Content-Length: 100000000", b"{}", 413),
        ("Content-Length: 10", b'{"code": "' + b"x" * 100_000 + b'"}', 400),
        ("Content-Length: 50", b'{"code": "K7', 400),
        ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", 411),
    ],
)
def test_a_length_that_lies_or_is_not_claimed_is_refused(
    header: str, body: bytes, status: int, live_server: Any
) -> None:
    head = f"POST /api/enrol HTTP/1.1\nHost: localhost\nContent-Type: application/json\n{header}"
    answer = raw(live_server.url, head, body)
    assert f" {status} ".encode() in answer.splitlines()[0]
    assert b'"hint"' in answer
