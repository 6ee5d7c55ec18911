"""The commands as processes, over real HTTP, against the contract."""

import json
from typing import Any

import pytest

from tests.agent.contract import RENEWED, STATUS, TOKEN, Answer, ContractServer, no
from tests.agent.processes import BAD_USAGE, FINE, REFUSED, UNREACHABLE, Machine

pytestmark = pytest.mark.slow

ASSIGNMENT: dict[str, Any] = STATUS["assignments"][0]  # type: ignore[index]


class TestAnnounce:
    def test_it_sends_the_token_and_the_facts_and_prints_a_line_per_policy(
        self, enrolled: Machine, server: ContractServer
    ) -> None:
        done = enrolled.agent("announce", "--reason", "network")
        [asked] = server.asked
        assert (done.returncode, done.stderr) == (FINE, "")
        assert done.stdout == ("laptops: protected, last backup 2026-11-21 09:00, next backup after 2026-11-22 09:00\n")
        assert (asked.method, asked.path, asked.token) == ("POST", "/api/check-in", TOKEN)
        assert set(asked.body) == {
            "hostname", "addresses", "on_battery", "metered", "sent_at", "reason", "version"
        }  # fmt: skip
        assert asked.body["reason"] == "network"

    def test_no_word_of_the_server_steers_the_terminal(self, enrolled: Machine, server: ContractServer) -> None:
        server.always = Answer(200, {**STATUS, "assignments": [{**ASSIGNMENT, "policy": "\x1b[2Jevil\nline"}]})
        said = enrolled.agent("announce").stdout
        assert "\x1b" not in said
        assert said.count("\n") == 1

    @pytest.mark.parametrize("assignments", [None, 7, "text", [7, None], [{}], [{"policy": {"a": 1}, "state": []}]])
    def test_an_answer_of_an_odd_shape_is_no_traceback(
        self, enrolled: Machine, server: ContractServer, assignments: Any
    ) -> None:
        server.always = Answer(200, {"source": 5, "assignments": assignments, "snoozed_until": 1e300})
        done = enrolled.agent("announce")
        assert (done.returncode, done.stderr) == (FINE, "")


class TestOtherCommands:
    def test_status_asks_and_changes_nothing(self, enrolled: Machine, server: ContractServer) -> None:
        assert enrolled.agent("status").stdout.startswith("laptops: protected")
        assert [(asked.method, asked.path) for asked in server.asked] == [("GET", "/api/agent/status")]

    def test_now_says_whether_anything_was_moved(self, enrolled: Machine, server: ContractServer) -> None:
        server.next_answers.extend([Answer(200, {"moved": 2}), Answer(200, {"moved": 0})])
        assert enrolled.agent("now").stdout.startswith("it begins as soon as")
        assert enrolled.agent("now").stdout.startswith("nothing to begin")

    def test_a_user_snoozes_and_ends_it_and_reads_the_rest_in_plain_words(
        self, enrolled: Machine, server: ContractServer
    ) -> None:
        assert enrolled.agent("snooze", "1h30m").stdout == "snoozed until 2026-11-21 14:00\n"
        assert enrolled.agent("unsnooze").returncode == FINE
        assert [(asked.method, asked.path, asked.body) for asked in server.asked] == [
            ("POST", "/api/agent/snooze", {"for": 5400.0}), ("DELETE", "/api/agent/snooze", {}),
        ]  # fmt: skip
        assert json.loads(enrolled.agent("status", "--json").stdout) == STATUS
        assert "next backup after 2026-11-22 10:00" in enrolled.agent("status", TZ="Europe/Berlin").stdout
        due = {**ASSIGNMENT, "state": "due", "backlog": "ready", "policy": "weekly"}
        never = {**ASSIGNMENT, "state": "never", "last_backup_at": None, "next_backup_at": None}
        answer = {**STATUS, "assignments": [due, never], "paused": True, "snoozed_until": "2026-11-21T14:00:00Z"}
        server.always = Answer(200, answer)
        assert enrolled.agent("announce").stdout.splitlines() == [
            "weekly: due, about to run, last backup 2026-11-21 09:00",
            "laptops: never backed up",
            "paused by an operator: no backups until it is resumed",
            "snoozed until 2026-11-21 14:00",
        ]
        server.always = Answer(200, {**STATUS, "assignments": []})
        assert enrolled.agent("announce").stdout == "laptop: under no policy, nothing backs it up\n"

    def test_a_snooze_that_cannot_be_read_asks_nothing(self, enrolled: Machine, server: ContractServer) -> None:
        done = enrolled.agent("snooze", "until", "soon")
        assert (done.returncode, server.asked) == (BAD_USAGE, [])
        assert "neither a duration nor a time: soon" in done.stderr
        assert "write it as 2h" in done.stderr

    def test_forget_wants_a_yes(self, enrolled: Machine) -> None:
        refused = enrolled.agent("forget")
        assert (refused.returncode, enrolled.config.exists()) == (BAD_USAGE, True)
        assert "add --yes" in refused.stderr
        assert enrolled.agent("forget", "--yes").returncode == FINE
        assert not enrolled.config.exists()
        assert enrolled.agent("forget", "--yes").returncode == BAD_USAGE


class TestRotate:
    def test_the_new_token_is_kept_before_it_is_first_used(self, enrolled: Machine, server: ContractServer) -> None:
        target = enrolled.home / "elsewhere.json"  # the file may be behind a link, which stays
        enrolled.config.rename(target)
        enrolled.config.symlink_to(target)
        kept: list[tuple[str, str]] = []
        server.meanwhile = lambda asked: kept.append((asked.token, enrolled.stored()["token"]))
        assert enrolled.agent("rotate").returncode == FINE
        assert kept == [(TOKEN, TOKEN), (RENEWED, RENEWED)]
        assert enrolled.config.is_symlink()

    def test_a_refused_rotation_leaves_the_old_token(self, enrolled: Machine, server: ContractServer) -> None:
        server.always = no(429, "too many requests", "try again in 9 s", Retry_After="9")
        done = enrolled.agent("rotate")
        assert done.returncode == REFUSED
        assert "try again in 9 s" in done.stderr
        assert enrolled.stored()["token"] == TOKEN

    def test_an_answer_without_a_token_leaves_the_old_one(self, enrolled: Machine, server: ContractServer) -> None:
        server.always = Answer(200, {"token": "new\r\nline"})
        assert enrolled.agent("rotate").returncode == BAD_USAGE
        assert enrolled.stored()["token"] == TOKEN

    def test_no_token_is_printed(self, enrolled: Machine) -> None:
        done = enrolled.agent("rotate")
        assert "bsa_" not in done.stdout + done.stderr


class TestErrors:
    def test_a_revoked_token_says_what_to_do(self, enrolled: Machine, server: ContractServer) -> None:
        server.always = no(401)
        done = enrolled.agent("announce")
        assert done.returncode == REFUSED
        assert "the token of laptop is not accepted: it was revoked or replaced" in done.stderr
        assert "manage.py enrol SOURCE" in done.stderr
        assert TOKEN not in done.stderr

    @pytest.mark.parametrize(("status", "code"), [(403, REFUSED), (422, REFUSED), (429, REFUSED), (503, UNREACHABLE)])
    def test_the_exit_code_tells_a_no_from_a_server_in_trouble(
        self, enrolled: Machine, server: ContractServer, status: int, code: int
    ) -> None:
        server.always = no(status, "the error", "the hint")
        done = enrolled.agent("status")
        assert done.returncode == code
        assert "the error" in done.stderr
        assert "→ the hint" in done.stderr

    def test_an_absent_server_is_not_reachable(self, machine: Machine) -> None:
        with ContractServer() as gone:
            machine.store(url=gone.url, token=TOKEN, source="laptop")
        done = machine.agent("announce")
        assert done.returncode == UNREACHABLE
        assert f"{gone.url} is not reachable: Connection refused" in done.stderr
        assert "check the network" in done.stderr

    @pytest.mark.parametrize(
        "arguments", [("announce", "--reason", "boredom"), ("snooze",), ("dance",), ("enrol", "x")]
    )
    def test_bad_usage(self, machine: Machine, arguments: tuple[str, ...]) -> None:
        done = machine.agent(*arguments)
        assert done.returncode == BAD_USAGE
        assert "usage: backupsched-agent" in done.stderr

    def test_every_command_wants_an_enrolled_machine(self, machine: Machine) -> None:
        for command in ("announce", "status", "now", "unsnooze", "rotate", "run"):
            done = machine.agent(command)
            assert (done.returncode, command) == (BAD_USAGE, command)
            assert "this machine is not enrolled" in done.stderr
            assert "backupsched-agent enrol URL CODE" in done.stderr
