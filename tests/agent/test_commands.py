"""The commands, over real HTTP, against the contract."""

from typing import Any

import pytest

from tests.agent.contract import RENEWED, STATUS, TOKEN, Answer, ContractServer, no
from tests.agent.processes import BAD_USAGE, FINE, REFUSED, UNREACHABLE

pytestmark = pytest.mark.slow

ASSIGNMENT: dict[str, Any] = STATUS["assignments"][0]  # type: ignore[index]
FIELDS = {"hostname", "addresses", "on_battery", "metered", "used_bytes", "sent_at", "reason", "version"}


class TestAnnounce:
    def test_it_sends_the_token_and_the_facts_and_prints_a_line_per_policy(self, enrolled, server):
        done = enrolled.agent("announce", "--reason", "network")
        [asked] = server.asked
        assert (done.returncode, done.stderr) == (FINE, "")
        assert done.stdout == (
            "laptops: protected, last backup 2026-11-21 09:00, last proved restorable 2026-11-20 09:00, "
            "next backup after 2026-11-22 09:00\n"
        )
        assert (asked.method, asked.path, asked.token) == ("POST", "/api/check-in", TOKEN)
        assert (set(asked.body), asked.body["reason"]) == (FIELDS, "network")

    def test_an_answer_of_an_odd_shape_is_no_traceback_and_steers_no_terminal(self, enrolled, server):
        server.always = Answer(200, {**STATUS, "assignments": [{**ASSIGNMENT, "policy": "\x1b[2Jevil\nline"}]})
        printed = enrolled.agent("announce").stdout
        assert ("\x1b" in printed, printed.count("\n")) == (False, 1)
        for assignments in (None, 7, "text", [7, None], [{}], [{"policy": {"a": 1}, "status": []}]):
            server.always = Answer(200, {"source": 5, "assignments": assignments, "snoozed_until": 1e300})
            done = enrolled.agent("announce")
            assert (done.returncode, done.stderr) == (FINE, "")


class TestOtherCommands:
    def test_they_ask_the_server_what_they_say_and_print_its_answer(self, enrolled, server):
        assert enrolled.agent("status").stdout.startswith("laptops: protected")
        assert [(asked.method, asked.path) for asked in server.asked] == [("GET", "/api/agent/status")]
        server.next_answers.extend([Answer(200, {"moved": 2}), Answer(200, {"moved": 0})])
        assert enrolled.agent("now").stdout.startswith("it begins as soon as")
        assert enrolled.agent("now").stdout.startswith("nothing to begin")
        number = len(server.asked)
        done = enrolled.agent("snooze", "until", "soon")
        assert (done.returncode, len(server.asked)) == (BAD_USAGE, number), "what cannot be read is not asked"
        assert "neither a duration nor a time: soon" in done.stderr
        assert "write it as 2h" in done.stderr

    def test_forget_wants_a_yes(self, enrolled):
        refused = enrolled.agent("forget")
        assert (refused.returncode, enrolled.config.exists()) == (BAD_USAGE, True)
        assert "add --yes" in refused.stderr
        assert enrolled.agent("forget", "--yes").returncode == FINE
        assert not enrolled.config.exists()
        assert enrolled.agent("forget", "--yes").returncode == BAD_USAGE

    def test_rotate_keeps_the_new_token_before_it_is_first_used_and_prints_none(self, enrolled, server):
        kept: list[tuple[str, str]] = []
        server.meanwhile = lambda asked: kept.append((asked.token, enrolled.stored()["token"]))
        done = enrolled.agent("rotate")
        assert done.returncode == FINE
        assert kept == [(TOKEN, TOKEN), (RENEWED, RENEWED)]
        assert "bsa_" not in done.stdout + done.stderr

    @pytest.mark.parametrize(("answer", "code", "words"), [
        (no(429, "too many requests", "try again in 9 s", Retry_After="9"), REFUSED, "try again in 9 s"),
        (Answer(200, {"token": "new\r\nline"}), BAD_USAGE, ""),
    ])  # fmt: skip
    def test_a_rotation_that_is_refused_or_brings_no_token_leaves_the_old_one(
        self, enrolled, server, answer, code, words
    ):
        server.always = answer
        done = enrolled.agent("rotate")
        assert done.returncode == code
        assert words in done.stderr
        assert enrolled.stored()["token"] == TOKEN


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "code", "words"),
        [
            (
                401,
                REFUSED,
                "the token of laptop is not accepted: it was revoked or replaced|manage.py sources enrol SOURCE",
            ),
            *[(status, REFUSED, "the error|→ the hint") for status in (403, 422, 429)],
            (503, UNREACHABLE, "the error|→ the hint"),
        ],
    )
    def test_the_exit_code_tells_a_no_from_a_server_in_trouble(self, enrolled, server, status, code, words):
        server.always = no(status, "the error", "the hint")
        done = enrolled.agent("announce")
        assert done.returncode == code
        assert [part for part in words.split("|") if part not in done.stderr] == []
        assert TOKEN not in done.stderr

    def test_an_absent_server_is_not_reachable(self, machine):
        with ContractServer() as gone:
            machine.store(url=gone.url, token=TOKEN, source="laptop")
        done = machine.agent("announce")
        assert done.returncode == UNREACHABLE
        assert f"{gone.url} is not reachable: Connection refused" in done.stderr
        assert "check the network" in done.stderr

    @pytest.mark.parametrize(
        "arguments", [("announce", "--reason", "boredom"), ("snooze",), ("dance",), ("enrol", "x")]
    )
    def test_bad_usage(self, machine, arguments):
        done = machine.agent(*arguments)
        assert done.returncode == BAD_USAGE
        assert "usage: backupsched-agent" in done.stderr

    def test_every_command_wants_an_enrolled_machine(self, machine):
        for command in ("announce", "status", "now", "unsnooze", "rotate", "run"):
            done = machine.agent(command)
            assert (done.returncode, command) == (BAD_USAGE, command)
            assert "this machine is not enrolled" in done.stderr
            assert "backupsched-agent enrol URL CODE" in done.stderr
