"""Enrolling: a code becomes a token in a file that only its owner reads."""

import stat
from pathlib import Path

import pytest

from tests.agent.contract import CODE, TOKEN, Answer, Asked, no
from tests.agent.processes import BAD_USAGE, FINE, REFUSED, UNREACHABLE, as_module
from tests.engines.peers import listening

pytestmark = pytest.mark.slow

PLAIN = "http:// shows the token to everyone on the way"


class TestEnrol:
    def test_a_code_becomes_a_token_for_the_owner_alone(self, machine, server):
        done = machine.agent("enrol", server.url + "/", CODE)
        [asked] = server.asked
        assert (done.returncode, done.stderr) == (FINE, "")
        assert (asked.body["code"], asked.token) == (CODE, "")
        assert machine.stored() == {"url": server.url, "token": TOKEN, "source": "laptop"}
        assert stat.S_IMODE(machine.config.stat().st_mode) == 0o600
        assert stat.S_IMODE(machine.config.parent.stat().st_mode) == 0o700
        assert list(machine.config.parent.iterdir()) == [machine.config]
        assert TOKEN not in done.stdout

    def test_an_enrolled_machine_keeps_its_token_unless_forced(self, enrolled, server):
        enrolled.store(url=server.url, token="bsa_an-older-one", source="laptop")
        refused = enrolled.agent("enrol", server.url, CODE)
        assert (refused.returncode, server.asked) == (BAD_USAGE, [])
        assert "add --force" in refused.stderr
        assert enrolled.stored()["token"] == "bsa_an-older-one"
        assert enrolled.agent("enrol", server.url, CODE, "--force").returncode == FINE
        assert enrolled.stored()["token"] == TOKEN

    def test_a_refused_code_leaves_nothing_behind_and_none_is_spent_when_the_token_cannot_be_kept(
        self, machine, server
    ):
        server.always = no(401, "the code is not accepted", "ask for another")
        done = machine.agent("enrol", server.url, CODE)
        assert done.returncode == REFUSED
        assert "the code is not accepted\n  → ask for another" in done.stderr
        assert list(machine.config.parent.iterdir()) == []
        machine.config.parent.rmdir()
        machine.config.parent.write_text("a file where the directory should be")
        done = machine.agent("enrol", server.url, CODE)
        assert (done.returncode, len(server.asked)) == (BAD_USAGE, 1)
        assert "cannot be written" in done.stderr

    def test_the_usual_place_is_the_users_config_directory(self, monkeypatch):
        agent = as_module()
        monkeypatch.setenv("XDG_CONFIG_HOME", "/home/ada/.config")
        for user, place in ((1000, "/home/ada/.config/backupsched"), (0, "/etc/backupsched")):
            monkeypatch.setattr(agent.os, "geteuid", lambda user=user: user)
            assert agent.default_config() == Path(place) / "agent.json"

    @pytest.mark.parametrize(
        ("url", "words"),
        [
            *[
                (url, "not an address of a server")
                for url in ("backups.example.org", "ftp://a.example/", "https://", "https://a:99999/", "https://a/a b")
            ],
            ("https://ada:secret@host/", "the address holds more than host and path"),
            ("https://host/?token=x", "the address holds more than host and path"),
            ("http://192.0.2.1/", PLAIN),
            ("http://localhost.example.org/", PLAIN),
        ],
    )
    def test_an_address_that_a_token_must_not_go_to_is_refused(self, machine, url, words):
        done = machine.agent("enrol", url, CODE)
        assert done.returncode == BAD_USAGE
        assert words in done.stderr
        assert not machine.config.exists()


class TestTheConfigFile:
    @pytest.mark.parametrize(("mode", "variables", "warned"), [
        (0o644, {}, True),
        (0o440, {"CREDENTIALS_DIRECTORY": "own"}, False),  # handed over by systemd
        (0o440, {"CREDENTIALS_DIRECTORY": "/elsewhere"}, True),
    ])  # fmt: skip
    def test_one_that_others_can_read_is_warned_of(self, enrolled, mode, variables, warned):
        enrolled.config.chmod(mode)
        own = {name: value.replace("own", str(enrolled.config.parent)) for name, value in variables.items()}
        done = enrolled.agent("status", **own)
        assert done.returncode == FINE
        assert ("others can read the token" in done.stderr and "chmod 600" in done.stderr) == warned

    @pytest.mark.parametrize("text", [
        "", "[]", "null", "{", '{"url": 5}', "[" * 100_000, "\xff", '{"url": "https://a/", "token": 7, "source": "x"}',
        '{"url": "https://a/", "token": "bsa_12345678", "source": "x", "ca_file": 7}',
    ])  # fmt: skip
    def test_a_damaged_one_is_reported_without_a_traceback(self, machine, text):
        machine.store()
        machine.config.write_bytes(text.encode("latin-1"))
        done = machine.agent("status")
        assert done.returncode == BAD_USAGE
        assert f"{machine.config} is damaged" in done.stderr
        assert "--force" in done.stderr

    @pytest.mark.parametrize(("edited", "words"), [
        ({"url": "http://192.0.2.1"}, "http:// shows the token"),
        ({"token": "bsa_first\r\nX-Evil: 1"}, ""),
    ])  # fmt: skip
    def test_one_that_was_edited_to_show_the_token_or_to_forge_a_header_sends_nothing(
        self, machine, server, edited, words
    ):
        machine.store(**{"url": server.url, "token": TOKEN, "source": "laptop"} | edited)
        done = machine.agent("status")
        assert (done.returncode, server.asked) == (BAD_USAGE, [])
        assert words in done.stderr

    def test_it_is_replaced_at_one_stroke_and_a_write_that_fails_leaves_the_old_one_whole(self, enrolled, server):
        """A reader with the old file open continues to read it. Then the directory vanishes between the check and the
        write: nothing half-written replaces the config."""
        with enrolled.config.open() as old:
            assert enrolled.agent("rotate").returncode == FINE
            assert TOKEN in old.read()
        assert enrolled.stored()["token"] != TOKEN
        before, kept = enrolled.config.read_bytes(), enrolled.home / "moved"

        def move_away(asked: Asked) -> None:
            enrolled.config.parent.rename(kept)
            enrolled.config.parent.write_text("")

        server.meanwhile = move_away
        done = enrolled.agent("rotate")
        assert done.returncode == BAD_USAGE
        assert "cannot be written" in done.stderr
        assert [(path.name, path.read_bytes()) for path in kept.iterdir()] == [("agent.json", before)]


class TestAnswersThatAreNone:
    @pytest.mark.parametrize(("answer", "words"), [
        *[
            (Answer(200, body), "is not the scheduler (HTTP 200)")
            for body in (b"", b"<html>log in first</html>", b"[1]", b"\xff", b'"text"', b"[" * 100_000)
        ],
        (Answer(200, b'{"source": "laptop"}' + b" " * 1_000_000), "is not the scheduler"),  # longer than a megabyte
        (Answer(502, b"<html>bad gateway</html>"), "has a problem: the server answered with HTTP 502"),
    ])  # fmt: skip
    def test_a_page_in_the_servers_place_is_named(self, enrolled, server, answer, words):
        server.always = answer
        done = enrolled.agent("announce")
        assert done.returncode == UNREACHABLE
        assert words in done.stderr
        assert ("A network that asks for a log-in" in done.stderr) == (answer.status == 200)

    def test_a_port_that_speaks_no_http_is_not_reachable(self, machine):
        with listening(lambda caller: caller.sendall(b"220 this is a mail server\r\n")) as (address, port):
            machine.store(url=f"https://{address}:{port}", token=TOKEN, source="laptop")
            done = machine.agent("status")
        assert done.returncode == UNREACHABLE
        assert "is not reachable" in done.stderr
