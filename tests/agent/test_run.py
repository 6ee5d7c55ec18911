"""`run` as a process: when it announces, how it waits, how it ends."""

import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.agent.contract import RENEWED, STATUS, TOKEN, Answer, ContractServer, no
from tests.agent.processes import FINE, ROOT, Running, replace
from tests.engines.peers import loopback_address
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

OFTEN = {"LOOK_EVERY": 0.1}
SELDOM = {"LOOK_EVERY": 3600.0}
"""Long intervals: a look finds nothing that a test sees."""
PATIENT = {**SELDOM, "SOCKET_TIMEOUT": 3600.0, "WHOLE_REQUEST": 3600.0}
"""Nothing but a signal ends its wait for an answer."""
QUICK = {**OFTEN, "SETTLE": 0.2, "NETWORK_GAP": 0.0, "unresponsive": True}


@pytest.fixture
def addresses(tmp_path):
    """A file with the address that the machine has at first."""
    path = tmp_path / "addresses"
    path.write_text("192.0.2.5")
    return path


class TestWhenItAnnounces:
    def test_at_its_start_and_on_sighup_at_once(self, enrolled, server):
        with enrolled.running(SELDOM) as agent:
            agent.wait_for("laptops: protected")
            agent.announce_now()
            eventually(lambda: len(server.asked) == 2)
        assert server.reasons() == ["start", "user"]

    def test_at_once_also_on_a_signal_that_comes_just_before_it_waits(self, enrolled, server):
        with enrolled.running({**SELDOM, "deaf": True}) as agent:
            agent.wait_for("laptops: protected")
            agent.announce_now()
            eventually(lambda: len(server.asked) == 2)
            assert ended(agent.process, signal.SIGTERM) == FINE

    def test_as_often_as_the_server_says(self, enrolled, server):
        server.always = Answer(200, {**STATUS, "interval": 0.5})
        with enrolled.running({"SHORTEST_INTERVAL": 0.1}):
            eventually(lambda: len(server.asked) >= 4)
        assert server.reasons()[:4] == ["start", "timer", "timer", "timer"]

    def test_when_its_addresses_change_and_nothing_tells_of_it_once_they_have_settled(
        self, enrolled, server, addresses
    ):
        with enrolled.running({**QUICK, "SETTLE": 2.0, "addresses_from": str(addresses)}) as agent:
            agent.wait_for("laptops: protected")
            began = time.monotonic()
            for address in ("198.51.100.1", "198.51.100.2", "198.51.100.3"):
                replace(addresses, address)
            eventually(lambda: len(server.asked) == 2)
            assert server.asked[1].at - began >= 2
        assert server.reasons() == ["start", "network"]
        assert "198.51.100.3" in server.check_ins()[1]["addresses"]

    @pytest.mark.needs("iproute2", "ip")
    def test_when_linux_tells_that_an_address_came(self):
        """A separate network namespace, with looks an hour apart: only the kernel's message can have announced it."""
        if subprocess.run(("unshare", "-n", "true"), check=False, capture_output=True).returncode:
            pytest.skip("no network namespace may be made here; the way without messages is tested above")
        script = ROOT / "tests/agent/in_a_namespace.py"
        alone = ("unshare", "-n", sys.executable, str(script))
        done = subprocess.run(alone, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
        assert (done.returncode, done.stdout) == (0, "start\nnetwork 10.99.0.1\n"), done.stderr

    def test_when_the_machine_wakes(self, enrolled, server, tmp_path):
        slept = tmp_path / "slept"
        slept.write_text("0")
        with enrolled.running({**OFTEN, "NETWORK_GAP": 0.0, "boot_clock_from": str(slept)}) as agent:
            agent.wait_for("laptops: protected")
            replace(slept, "3600")
            eventually(lambda: len(server.asked) == 2)
        assert server.reasons() == ["start", "network"]

    def test_when_it_is_enrolled_anew_with_the_new_token(self, enrolled, server):
        server.next_answers.append(no(401))
        with enrolled.running(OFTEN) as agent:
            agent.wait_for("not accepted")
            enrolled.store(url=server.url, token=RENEWED, source="laptop")
            agent.wait_for("laptops: protected")
        assert [asked.token for asked in server.asked] == [TOKEN, RENEWED]


def waits_of(agent: Running) -> list[int]:
    """The waits that it reported, in seconds."""
    return [int(line.split(" in ")[1].split()[0]) for line in agent.printed().splitlines() if " in " in line]


class TestWhenTheServerSaysNo:
    def test_a_revoked_token_says_what_to_do_and_is_tried_rarely(self, enrolled, server, addresses):
        server.always = no(401)
        with enrolled.running({**QUICK, "addresses_from": str(addresses), "FIRST_BACKOFF": 0.1}) as agent:
            agent.wait_for("manage.py sources enrol SOURCE")
            replace(addresses, "198.51.100.7")
            agent.announce_now()
            agent.wait_for("next announcement in", times=2)
            waits = waits_of(agent)
        assert all(2880 <= wait <= 4320 for wait in waits)
        assert server.reasons() == ["start", "user"]
        assert TOKEN not in agent.printed()

    def test_it_waits_as_long_as_it_is_told_whatever_the_network_does(self, enrolled, server, addresses):
        server.next_answers.append(no(429, "too many requests", Retry_After="4"))
        with enrolled.running({**QUICK, "FIRST_BACKOFF": 0.1, "addresses_from": str(addresses)}) as agent:
            agent.wait_for("next announcement in 4 s")
            replace(addresses, "198.51.100.7")
            eventually(lambda: len(server.asked) >= 2)
        assert server.asked[1].at - server.asked[0].at >= 4
        assert server.reasons()[0] == "start"

    def test_a_config_that_is_deleted_is_said_and_waited_for(self, enrolled, server):
        with enrolled.running(OFTEN) as agent:
            agent.wait_for("laptops: protected")
            enrolled.config.unlink()
            agent.wait_for("this machine is not enrolled")
            enrolled.store(url=server.url, token=TOKEN, source="laptop")
            agent.wait_for("laptops: protected", times=2)


class TestWhenTheServerIsAway:
    def test_it_backs_off_and_is_there_again_when_the_server_is(self, machine):
        address = loopback_address()  # where no other process is given the port in the meantime
        with ContractServer(address=address) as gone:
            machine.store(url=gone.url, token=TOKEN, source="laptop")
        with machine.running({**OFTEN, "FIRST_BACKOFF": 0.2, "LONGEST_BACKOFF": 0.8}) as agent:
            agent.wait_for("is not reachable", times=3)
            with ContractServer(gone.port, address=address) as back:
                agent.wait_for("laptops: protected")
        assert back.reasons() == ["timer"]

    def test_failures_that_are_over_count_no_more(self, enrolled, server):
        server.next_answers.extend([no(503)] * 4 + [Answer(200, STATUS)] + [no(503)])
        with enrolled.running({**SELDOM, "FIRST_BACKOFF": 1000.0, "LONGEST_BACKOFF": 1e6}) as agent:
            for tried in range(1, 7):
                agent.wait_for("next announcement in", times=tried)
                agent.announce_now()
            waits = waits_of(agent)
        assert 4000 <= waits[3] <= 8000
        assert 500 <= waits[5] <= 1000

    def test_a_server_that_drips_bytes_does_not_hold_it(self, machine):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            machine.store(url=f"http://127.0.0.1:{listener.getsockname()[1]}", token=TOKEN, source="laptop")
            with machine.running({**OFTEN, "WHOLE_REQUEST": 1.0, "FIRST_BACKOFF": 0.2}) as agent:
                agent.wait_for("no answer in time", times=2)


class TestHowItEnds:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, FINE), (signal.SIGINT, 130)])
    def test_at_once_while_it_waits(self, enrolled, number, code):
        with enrolled.running(SELDOM) as agent:
            agent.wait_for("laptops: protected")
            assert ended(agent.process, number) == code
            assert "Traceback" not in agent.printed()

    def test_at_once_while_a_server_keeps_it_waiting(self, machine):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            machine.store(url=f"http://127.0.0.1:{listener.getsockname()[1]}", token=TOKEN, source="laptop")
            with machine.running(PATIENT) as agent:
                listener.settimeout(PATIENCE)
                connection, _ = listener.accept()
                with connection:
                    assert ended(agent.process, signal.SIGTERM) == FINE
                    assert "Traceback" not in agent.printed()


def ended(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """The exit code, long before anything else than the signal would end or wake it."""
    process.send_signal(number)
    return process.wait(PATIENCE)


class TestSystemd:
    def test_it_is_told_of_readiness_life_and_state(self, enrolled, tmp_path):
        address = str(tmp_path / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(PATIENCE)
            with enrolled.running(OFTEN, NOTIFY_SOCKET=address):
                received = [manager.recv(4096).decode() for _ in range(4)]
        assert received[0] == "READY=1"
        assert received[1].startswith("STATUS=laptops: protected")
        assert received[2:] == ["WATCHDOG=1", "WATCHDOG=1"]

    def test_a_manager_that_is_gone_is_no_error(self, enrolled, tmp_path):
        with enrolled.running(NOTIFY_SOCKET=str(tmp_path / "nobody")) as agent:
            agent.wait_for("laptops: protected")
            assert agent.process.poll() is None
