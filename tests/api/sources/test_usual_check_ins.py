"""Check-ins that a fleet repeats every few minutes are answered before Django, with Django's own answer."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import close_old_connections, connection
from django.test import RequestFactory
from django.utils import timezone

from api.agent_auth import REQUESTS
from api.usual_check_ins import usual_check_ins
from jobs.models import BacklogRecord, Decision
from jobs.states import Status, WaitingFor
from proving.bench.fleets.statements import counted
from sources import planning
from sources.agents import tokens
from sources.models import AgentToken, Source
from tests.api.sources.agents import Agent
from tests.sources.factories import make_assignment, make_source, record_of

pytestmark = pytest.mark.django_db(transaction=True)

LONG_WAY = [b"the long way"]


def usual(**more: Any) -> dict[str, Any]:
    facts = {"hostname": "laptop", "addresses": ["10.0.0.5"], "on_battery": False, "reason": "timer"}
    return {**facts, "sent_at": timezone.now().isoformat(), **more}


@pytest.fixture
def agent() -> Agent:
    """It has said before what it says in `usual`."""
    agent = Agent(make_source(name="laptop"))
    make_assignment(
        None, agent.source, last_backup_at=timezone.now(), next_backup_at=timezone.now() + timedelta(days=1)
    )
    assert agent.check_in(**usual()).status_code == 200
    return agent


def answer_to(agent: Agent, facts: dict[str, Any] | str, path: str = "/api/check-in", **environ: Any) -> Any:
    """The body of the answer; LONG_WAY: it is left to Django, which can read the whole request."""
    sent = facts if isinstance(facts, str) else json.dumps(facts)
    made = {"REMOTE_ADDR": "192.0.2.7", "HTTP_AUTHORIZATION": f"Bearer {agent.token}", "HTTP_HOST": "localhost"}
    factory = RequestFactory(**(made | environ))
    request = factory.post(path, sent, content_type=environ.get("CONTENT_TYPE", "application/json"))

    def django(given: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        assert given["wsgi.input"].read(len(sent)) == sent.encode()
        return LONG_WAY

    answer = usual_check_ins(django)(request.environ | environ, lambda status, headers: None)
    return LONG_WAY if answer is LONG_WAY else json.loads(b"".join(answer))


def test_the_same_again_is_one_prepared_statement_with_the_usual_answer(agent: Agent) -> None:
    lines, before = Decision.objects.count(), Source.objects.get().checked_in_at
    other_hour = 1 << (timezone.now().hour + 12) % 24
    Source.objects.update(seen_hours=other_hour)
    with counted() as sent:
        answer = answer_to(agent, usual(sent_at="2001-01-01T00:00:00Z"))
    source = Source.objects.get()
    assert source.checked_in_at is not None
    assert source.seen_hours == other_hour | 1 << source.checked_in_at.hour
    assert [statement.split()[0] for statement in sent] == ["WITH"]
    assert before < source.checked_in_at
    assert source.clock_skew == pytest.approx(-(timezone.now().timestamp() - 978307200), abs=60)
    assert Decision.objects.count() == lines
    long_way = agent.check_in(**usual()).json()
    assert answer.pop("server_time") < long_way.pop("server_time")
    assert answer == long_way
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%checked_in_at = statement%'")
        assert cursor.fetchone() == (1,)


def test_what_waits_for_the_source_moves_and_is_logged(agent: Agent) -> None:
    assignment = make_assignment(source=agent.source)
    planning.emit_due()
    later = timezone.now() + timedelta(hours=1)
    BacklogRecord.objects.update(status=Status.WAITING, waiting_for=WaitingFor.RECHECK, run_after=later)
    lines = Decision.objects.filter(what="checked in").count()
    answer = answer_to(agent, usual())
    assert "ready" in [each["backlog"] for each in answer["assignments"]]
    assert (record_of(assignment).status, record_of(assignment).queue) == (Status.READY, planning.ARRIVALS)
    assert Decision.objects.filter(what="checked in").count() == lines + 1


UNUSUAL: list[tuple[dict[str, Any] | str, dict[str, Any]]] = [
    (usual(hostname="renamed"), {}), (usual(addresses=[]), {}), (usual(on_battery=None), {}),
    (usual(metered=True), {}), (usual(reason="network"), {}), (usual(sent_at=None), {}),
    (usual(source="laptop"), {}), (usual(hostname=7), {}), (usual(padding="x" * 65_536), {}),
    ("{", {}), ("[" * 50_000, {}), ('{"new": NaN, ' + json.dumps(usual())[1:], {}),
    (usual(), {"REMOTE_ADDR": "192.0.2.8"}), (usual(), {"HTTP_AUTHORIZATION": "Bearer bsa_wrong"}),
    (usual(), {"HTTP_HOST": "elsewhere.example"}), (usual(), {"CONTENT_TYPE": "text/plain"}),
    (usual(), {"path": "/api/check-in?a=1"}), (usual(), {"path": "/api/agent/rotate"}),
]  # fmt: skip


def test_anything_else_goes_the_long_way_and_writes_nothing(agent: Agent) -> None:
    before = Source.objects.values().get()
    for facts, environ in UNUSUAL:
        assert answer_to(agent, facts, **environ) is LONG_WAY, (str(facts)[:200], environ)
        assert Source.objects.values().get() == before, (str(facts)[:200], environ)
    assert answer_to(agent, usual()) is not LONG_WAY


def test_a_token_that_is_revoked_new_or_to_be_written_down_again_goes_the_long_way(agent: Agent) -> None:
    used_at = AgentToken.objects.get().used_at
    long_ago = timezone.now() - tokens.USED_AT_PRECISION
    ahead = timezone.now() + tokens.USED_AT_PRECISION / 2
    for change in (
        {"used_at": None},
        {"used_at": long_ago},
        {"used_at": ahead},
        {"used_at": used_at, "revoked_at": timezone.now()},
    ):
        AgentToken.objects.update(**change)
        assert answer_to(agent, usual()) is LONG_WAY, change
    AgentToken.objects.update(revoked_at=None)
    assert answer_to(agent, usual()) is not LONG_WAY


def test_plain_http_goes_the_long_way_where_tls_is_asked_for(agent: Agent, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert answer_to(agent, usual()) is LONG_WAY
    assert answer_to(agent, usual(), **{"wsgi.url_scheme": "https"}) is not LONG_WAY


def test_one_too_many_goes_the_long_way_and_is_not_stored(agent: Agent) -> None:
    REQUESTS.grant(str(agent.source.pk), REQUESTS.count - 2)  # the first one of `agent` went the long way
    assert answer_to(agent, usual()) is not LONG_WAY
    before = Source.objects.get().checked_in_at
    assert answer_to(agent, usual()) is LONG_WAY
    assert Source.objects.get().checked_in_at == before
    assert agent.check_in(**usual()).status_code == 429


def test_a_connection_that_died_is_opened_again(agent: Agent) -> None:
    connection.connection.close()
    assert answer_to(agent, usual()) is LONG_WAY
    close_old_connections()  # as Django begins each request, but for its test client's
    assert agent.check_in(**usual()).status_code == 200
    assert answer_to(agent, usual()) is not LONG_WAY
