"""Rate limits of agents, and of senders without a token."""

from typing import Any

import pytest
from django.test import Client

from api.agent_auth import FAILED_ENROLMENTS, network_of
from operations.limits import Limit, LimitOfOneProcess, TooMany
from sources.agents import tokens
from sources.models import AgentToken, Source
from tests.api.asking import problem_of
from tests.api.sources.agents import Agent
from tests.sources.factories import make_source
from tests.threads import at_once


def enrol(code: str, remote: str = "192.0.2.7", **headers: str) -> Any:
    client = Client(REMOTE_ADDR=remote, headers=headers)
    return client.post("/api/enrol", {"code": code}, content_type="application/json")


def wrong_token(remote: str = "192.0.2.7", **headers: str) -> Any:
    headers = {"Authorization": "Bearer wrong", **headers}
    return Client(REMOTE_ADDR=remote).get("/api/agent/status", headers=headers)


def assert_limited(answer: Any) -> None:
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 3600
    assert answer.headers["Retry-After"] in problem_of(answer)["hint"]


@pytest.mark.django_db
class TestLimit:
    def test_one_too_many_waits_for_the_next_window(self) -> None:
        limit = Limit("test", 2, 60)
        limit.spend("a", 6000)
        limit.spend("a", 6010)
        with pytest.raises(TooMany) as caught:
            limit.spend("a", 6020.5)
        assert caught.value.seconds == 40
        with pytest.raises(TooMany):
            limit.check("a", 6020)
        limit.check("b", 6020)  # which counts nothing
        limit.spend("b", 6020)
        limit.spend("a", 6060)

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("sort", [Limit, LimitOfOneProcess])
    def test_none_is_lost_at_the_same_moment(self, sort: type[Limit]) -> None:
        limit = sort("test", 10, 60)

        def spend() -> bool:
            try:
                limit.spend("a", 6000)
            except TooMany:
                return False
            return True

        assert sum(at_once(*[spend] * 16)) == 10

    def test_senders_are_told_apart_by_network(self) -> None:
        assert network_of("192.0.2.7") == network_of("::ffff:192.0.2.7") == "192.0.2.7"
        assert network_of("2001:db8:0:1:aaaa::1") == network_of("2001:db8:0:1:bbbb::2") == "2001:db8:0:1::"
        assert network_of("") == "local"


@pytest.mark.django_db
class TestFailedTokens:
    def test_twenty_a_minute_per_address(self) -> None:
        assert [wrong_token().status_code for _ in range(20)] == [401] * 20
        assert_limited(wrong_token())
        assert_limited(wrong_token(**{"X-Forwarded-For": "10.0.0.9", "Forwarded": "for=10.0.0.9"}))
        assert wrong_token("192.0.2.8").status_code == 401
        assert Agent(remote="192.0.2.7").check_in().status_code == 200, "a valid one is accepted all the same"


@pytest.mark.django_db
class TestFailedCodes:
    def test_beyond_twenty_a_minute_no_code_of_that_beginning_is_looked_at(self) -> None:
        code = tokens.make_code(make_source())
        assert [enrol(code[:4]).status_code for _ in range(20)] == [401] * 20
        assert_limited(enrol(code))
        assert enrol(code, "192.0.2.8").status_code == 201

    def test_wrong_codes_hold_up_no_right_one_from_the_same_address(self) -> None:
        codes = [tokens.make_code(make_source()) for _ in range(3)]  # a fleet behind one address
        FAILED_ENROLMENTS.grant("192.0.2.7", FAILED_ENROLMENTS.count - 2)
        assert [enrol(f"{number:04}").status_code for number in range(3)] == [401, 401, 429]
        assert [enrol(code).status_code for code in codes] == [201] * 3


@pytest.mark.django_db
class TestAgents:
    def test_sixty_requests_a_minute_per_source_whatever_its_token(self) -> None:
        agent = Agent()
        assert {agent.check_in().status_code for _ in range(30)} == {200}
        agent.token = agent.post("agent/rotate").json()["token"]
        assert {agent.get("agent/status").status_code for _ in range(29)} == {200}
        assert_limited(agent.check_in())
        assert Agent().check_in().status_code == 200

    def test_ten_rotations_and_ten_backups_asked_for_an_hour(self) -> None:
        agent, other = Agent(), Agent()
        for verb in ("rotate", "back-up-now"):
            assert {agent.post(f"agent/{verb}").status_code for _ in range(10)} == {200}
            assert_limited(agent.post(f"agent/{verb}"))
            assert other.post(f"agent/{verb}").status_code == 200
        assert AgentToken.objects.filter(source=agent.source).count() == 11

    def test_a_stolen_token_names_sixty_new_addresses_an_hour_for_workers_to_look_at(self) -> None:
        agent, looked_at = Agent(), set()
        for network in range(10):
            named = [f"10.0.{network}.{host}" for host in range(20)]
            assert agent.check_in(addresses=named).status_code == 200
            looked_at |= set(Source.objects.get(pk=agent.source.pk).addresses)
        assert "192.0.2.7" in Source.objects.get(pk=agent.source.pk).addresses
        assert len(looked_at) == 60
        other, named = Agent(), ["10.0.0.1", "2001:DB8::1", "172.17.0.1"]
        for _ in range(25):  # what it named before is not counted
            other.check_in(addresses=named)
        other.check_in(addresses=[*named, "10.0.0.2"])
        addresses = Source.objects.get(pk=other.source.pk).addresses
        assert addresses == ["192.0.2.7", "10.0.0.1", "2001:db8::1", "172.17.0.1", "10.0.0.2"]
