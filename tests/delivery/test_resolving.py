"""Names that have other addresses than they seem to."""

import asyncio
import socket
import threading

import pytest

from delivery.http import resolving
from delivery.http.resolving import CheckedResolver, NotAllowed
from jobs.outcomes import Succeeded
from tests.delivery.events import deliver, make_event, on_a_loop
from tests.delivery.receiver import receiving
from tests.waiting import PATIENCE


@pytest.fixture
def names(monkeypatch):
    """Answers of the system's resolver by name, one after the other; the last one again and again."""
    answers: dict[str, list[list[str]]] = {}
    real = socket.getaddrinfo

    def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
        if host not in answers:
            return real(host, port, family, type, proto, flags)
        found = answers[host].pop(0) if len(answers[host]) > 1 else answers[host][0]
        return [(socket.AF_INET6 if ":" in each else socket.AF_INET, type, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return answers


def resolve(host: str) -> list[str]:
    async def addresses() -> list[str]:
        return [found["host"] for found in await CheckedResolver().resolve(host, 80)]

    return on_a_loop(addresses)


class TestAName:
    @pytest.mark.parametrize(
        "addresses",
        [
            ["127.0.0.1"],
            ["1.1.1.1", "10.0.0.1"],
            ["::ffff:127.0.0.1", "1.1.1.1"],
            ["fe80::1"],
            [*(f"1.1.1.{number}" for number in range(20)), "10.0.0.1"],
        ],
    )
    def test_with_a_single_address_of_our_own_is_refused(self, names, addresses):
        names["example.com"] = [addresses]
        with pytest.raises(NotAllowed, match=r"example.com has the address .* not public"):
            resolve("example.com")

    def test_that_is_allowed_may_have_any_and_one_with_public_addresses_has_those(self, names, allow):
        names["example.com"] = [["1.1.1.1", "2606:4700::1111", "1.1.1.1"]]
        assert resolve("example.com") == ["1.1.1.1", "2606:4700::1111"]
        allow("hooks.internal")
        names["hooks.internal"] = names["Hooks.Internal."] = [["10.0.0.1"]]
        assert resolve("hooks.internal") == resolve("Hooks.Internal.") == ["10.0.0.1"]

    def test_that_hangs_holds_up_no_other_and_gives_its_place_back_at_its_end(self, names, monkeypatch):
        names["example.com"] = [["1.1.1.1"]]
        monkeypatch.setattr(resolving, "MOST_LOOK_UPS", 41)
        let_go = threading.Event()
        real = resolving.look_up

        def look_up(host, family):
            if host == "slow.example":
                let_go.wait(PATIENCE)
            return real(host, family)

        monkeypatch.setattr(resolving, "look_up", look_up)

        async def both() -> list[str]:
            resolver = CheckedResolver()
            hanging = [asyncio.ensure_future(resolver.resolve("slow.example", 80)) for _ in range(40)]
            await asyncio.sleep(0)
            found = await resolver.resolve("example.com", 80)
            for each in hanging:
                each.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
            let_go.set()
            found += await asyncio.wait_for(resolver.resolve("example.com", 80), PATIENCE)
            return [each["host"] for each in found]

        assert on_a_loop(both) == ["1.1.1.1"] * 2


@pytest.mark.django_db
class TestANameThatChangesItsAddress:
    """127.0.0.2 plays the public host, 127.0.0.1 what only our network may reach."""

    def test_is_connected_to_at_the_address_that_was_checked(self, names, allow):
        allow("127.0.0.2")
        names["rebinding.example"] = [["127.0.0.2"], ["127.0.0.1"]]
        with receiving() as inside, receiving(host="127.0.0.2", port=inside.port) as outside:
            [outcome] = deliver(make_event(url=f"http://rebinding.example:{outside.port}/"))
        assert isinstance(outcome, Succeeded)
        assert len(outside.requests) == 1
        assert inside.requests == []
        assert names["rebinding.example"] == [["127.0.0.1"]]

        [outcome] = deliver(make_event(url=f"http://rebinding.example:{inside.port}/"))
        assert "rebinding.example has the address 127.0.0.1, which is not public" in outcome.error
        assert outcome.fault_of is None

    def test_that_has_no_address_is_the_hosts_fault(self):
        [outcome] = deliver(make_event(url="https://unknown.invalid/"))
        assert "the name of https://unknown.invalid:443 could not be looked up" in outcome.error
        assert outcome.fault_of.title == "https://unknown.invalid:443"
