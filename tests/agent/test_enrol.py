"""Enrolling: a code becomes a token in a file that only its owner reads."""

import stat
from pathlib import Path

import pytest

from tests.agent.contract import CODE, TOKEN, Answer, Asked, ContractServer, no
from tests.agent.processes import BAD_USAGE, FINE, REFUSED, UNREACHABLE, Machine
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow


class TestEnrol:
    def test_a_code_becomes_a_token_for_the_owner_alone(self, machine: Machine, server: ContractServer) -> None:
        done = machine.agent("enrol", server.url + "/", "-", stdin=f"{CODE}\n")  # or as an argument
        [asked] = server.asked
        assert (done.returncode, done.stderr) == (FINE, "")
        assert (asked.body["code"], asked.token) == (CODE, "")
        assert machine.stored() == {"url": server.url, "token": TOKEN, "source": "laptop"}
        assert stat.S_IMODE(machine.config.stat().st_mode) == 0o600
        assert stat.S_IMODE(machine.config.parent.stat().st_mode) == 0o700
        assert list(machine.config.parent.iterdir()) == [machine.config]
        assert TOKEN not in done.stdout

    def test_an_enrolled_machine_keeps_its_token_unless_forced(self, enrolled: Machine, server: ContractServer) -> None:
        enrolled.store(url=server.url, token="bsa_an-older-one", source="laptop")
        refused = enrolled.agent("enrol", server.url, CODE)
        assert (refused.returncode, server.asked) == (BAD_USAGE, [])
        assert "add --force" in refused.stderr
        assert enrolled.stored()["token"] == "bsa_an-older-one"
        assert enrolled.agent("enrol", server.url, CODE, "--force").returncode == FINE
        assert enrolled.stored()["token"] == TOKEN

    def test_a_refused_code_leaves_nothing_behind(self, machine: Machine, server: ContractServer) -> None:
        server.always = no(401, "the code is not accepted", "ask for another")
        done = machine.agent("enrol", server.url, CODE)
        assert done.returncode == REFUSED
        assert "the code is not accepted\n  → ask for another" in done.stderr
        assert list(machine.config.parent.iterdir()) == []

    def test_no_code_is_spent_when_the_token_cannot_be_kept(self, machine: Machine, server: ContractServer) -> None:
        machine.config.parent.write_text("a file where the directory should be")
        done = machine.agent("enrol", server.url, CODE)
        assert (done.returncode, server.asked) == (BAD_USAGE, [])
        assert "cannot be written" in done.stderr

    def test_the_usual_place_is_the_users_config_directory(self, machine: Machine, server: ContractServer) -> None:
        from tests.agent.processes import as_module

        agent = as_module()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", "/home/ada/.config")
            patch.setattr(agent.os, "geteuid", lambda: 1000)
            assert agent.default_config() == Path("/home/ada/.config/backupsched/agent.json")
            patch.setattr(agent.os, "geteuid", lambda: 0)
            assert agent.default_config() == Path("/etc/backupsched/agent.json")

    @pytest.mark.parametrize(
        ("url", "words"),
        [
            ("backups.example.org", "not an address of a server"),
            ("ftp://backups.example.org/", "not an address of a server"),
            ("https://", "not an address of a server"),
            ("https://host:99999/", "not an address of a server"),
            ("https://host/a b", "not an address of a server"),
            ("https://ada:secret@host/", "the address holds more than host and path"),
            ("https://host/?token=x", "the address holds more than host and path"),
            ("http://192.0.2.1/", "http:// shows the token to everyone on the way"),
            ("http://localhost.example.org/", "http:// shows the token to everyone on the way"),
        ],
    )
    def test_an_address_that_a_token_must_not_go_to_is_refused(self, machine: Machine, url: str, words: str) -> None:
        done = machine.agent("enrol", url, CODE)
        assert done.returncode == BAD_USAGE
        assert words in done.stderr
        assert not machine.config.exists()


class TestTheConfigFile:
    def test_one_that_others_can_read_is_warned_of(self, enrolled: Machine) -> None:
        enrolled.config.chmod(0o644)
        done = enrolled.agent("status")
        assert done.returncode == FINE
        assert "others can read the token" in done.stderr
        assert "chmod 600" in done.stderr

    def test_a_credential_handed_over_by_systemd_is_not_warned_of(self, enrolled: Machine) -> None:
        enrolled.config.chmod(0o440)
        assert enrolled.agent("status", CREDENTIALS_DIRECTORY=str(enrolled.config.parent)).stderr == ""
        assert "others can read" in enrolled.agent("status", CREDENTIALS_DIRECTORY="/elsewhere").stderr

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "null",
            "{",
            '{"url": 5}',
            '{"url": "https://a/", "token": 7, "source": "x"}',
            "[" * 100_000,
            "\xff",
            '{"url": "https://a/", "token": "bsa_12345678", "source": "x", "ca_file": 7}',
        ],
    )
    def test_a_damaged_one_is_said_without_a_traceback(self, machine: Machine, text: str) -> None:
        machine.store()
        machine.config.write_bytes(text.encode("latin-1"))
        done = machine.agent("status")
        assert done.returncode == BAD_USAGE
        assert f"{machine.config} is damaged" in done.stderr
        assert "--force" in done.stderr

    def test_one_that_was_edited_to_plain_http_sends_nothing(self, machine: Machine) -> None:
        machine.store(url="http://192.0.2.1", token=TOKEN, source="laptop")
        done = machine.agent("status")
        assert done.returncode == BAD_USAGE
        assert "http:// shows the token" in done.stderr

    def test_a_token_that_would_not_fit_a_header_sends_nothing(self, machine: Machine, server: ContractServer) -> None:
        machine.store(url=server.url, token="bsa_first\r\nX-Evil: 1", source="laptop")
        assert machine.agent("status").returncode == BAD_USAGE
        assert server.asked == []

    def test_a_write_that_fails_leaves_the_old_one_whole(self, enrolled: Machine, server: ContractServer) -> None:
        """The directory vanishes between the check and the write: nothing half-written replaces the config."""
        before = enrolled.config.read_bytes()
        kept = enrolled.home / "moved"

        def move_away(asked: Asked) -> None:
            enrolled.config.parent.rename(kept)
            enrolled.config.parent.write_text("")

        server.meanwhile = move_away
        done = enrolled.agent("rotate")
        assert done.returncode == BAD_USAGE
        assert "cannot be written" in done.stderr
        assert [(path.name, path.read_bytes()) for path in kept.iterdir()] == [("agent.json", before)]

    def test_it_is_replaced_at_one_stroke(self, enrolled: Machine) -> None:
        """A reader that has the old file open goes on reading it."""
        with enrolled.config.open() as old:
            assert enrolled.agent("rotate").returncode == FINE
            assert TOKEN in old.read()
        assert enrolled.stored()["token"] != TOKEN

    def test_a_whole_port_that_answers_no_http_is_not_reachable(self, machine: Machine) -> None:
        import socket

        with socket.create_server(("127.0.0.1", 0)) as listener:
            machine.store(url=f"https://127.0.0.1:{listener.getsockname()[1]}", token=TOKEN, source="laptop")
            listener.settimeout(PATIENCE)
            from threading import Thread

            def greet() -> None:
                connection, _ = listener.accept()
                connection.sendall(b"220 this is a mail server\r\n")
                connection.close()

            thread = Thread(target=greet)
            thread.start()
            done = machine.agent("status")
            thread.join()
        assert done.returncode == UNREACHABLE
        assert "is not reachable" in done.stderr


class TestAnswersThatAreNone:
    @pytest.mark.parametrize("body", [b"", b"<html>log in first</html>", b"[1]", b"\xff", b'"text"', b"[" * 100_000])
    def test_a_page_in_the_servers_place_is_named(self, enrolled: Machine, server: ContractServer, body: bytes) -> None:
        server.always = Answer(200, body)
        done = enrolled.agent("announce")
        assert done.returncode == UNREACHABLE
        assert "is not the scheduler (HTTP 200)" in done.stderr
        assert "A network that asks for a log-in" in done.stderr

    def test_a_longer_answer_than_a_megabyte_is_not_read(self, enrolled: Machine, server: ContractServer) -> None:
        server.always = Answer(200, b'{"source": "laptop"}' + b" " * 1_000_000)
        assert enrolled.agent("status").returncode == UNREACHABLE

    def test_a_server_in_trouble_that_speaks_html_is_in_trouble(
        self, enrolled: Machine, server: ContractServer
    ) -> None:
        server.always = Answer(502, b"<html>bad gateway</html>")
        done = enrolled.agent("status")
        assert done.returncode == UNREACHABLE
        assert "has a problem of its own: the server answered with HTTP 502" in done.stderr
