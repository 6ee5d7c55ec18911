"""A server whose messages are in another language: pg_dump shows no SQLSTATE, so what it prints decides."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from engines.at_repositories import questions
from engines.base import EngineResult, RunEnded, Verdict
from engines.postgresql import engine
from external.processes.runner import program_environment
from tests.engines.peers import back_up
from tests.engines.postgresql_peer import DEBIAN, PostgresqlServer, postgresql_server
from tests.waiting import PATIENCE, eventually

WAITS = "FROM pg_stat_activity WHERE application_name = 'backup' AND wait_event_type = 'Lock'"


@pytest.fixture(scope="module")
def german() -> Iterator[PostgresqlServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANGUAGE", "de")
        with postgresql_server(DEBIAN, settings=("lc_messages=C.UTF-8",)) as server:
            [(says,)] = server.ask("SELECT short_desc FROM pg_settings WHERE name = 'lc_messages'")
            if says.startswith("Sets"):
                pytest.skip("PostgreSQL's translations are not installed")
            server.run("CREATE ROLE weak LOGIN PASSWORD 'w';; GRANT pg_read_all_data TO weak;; CREATE DATABASE shop")
            server.run("CREATE TABLE orders AS SELECT 1 AS n", "shop")
            yield server


def test_programs_speak_english_whatever_their_worker_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANG", "LANGUAGE", "LC_MESSAGES", "LC_ALL", "PGOPTIONS"):
        monkeypatch.setenv(name, "de_DE.UTF-8")
    found = program_environment({})
    assert {name: found[name] for name in found if name.startswith(("LANG", "LC_", "PG"))} == {"LC_ALL": "C"}


@pytest.mark.slow
@pytest.mark.parametrize("role", ["admin", "weak"])
@pytest.mark.parametrize("how", ["locked", "canceled", "dropped"])
def test_a_lock_is_not_for_now_in_any_language(
    role: str, how: str, german: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LOCK_WAIT", "200ms" if how == "locked" else "60s")
    source = german.source()
    if role == "weak":
        source = replace(source, options={"user": "weak"}, secret="w")

    def dumped() -> EngineResult:
        return back_up(source, tmp_path / "copy")

    with ThreadPoolExecutor(1) as pool, german.connect("shop") as other:
        other.execute("CREATE TABLE IF NOT EXISTS passing (n int)")
        other.execute("BEGIN")
        other.execute("DROP TABLE passing" if how == "dropped" else "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        dumping = pool.submit(dumped)
        if how != "locked":
            eventually(lambda: german.ask(f"SELECT 1 {WAITS}"))
        if how == "canceled":
            german.ask(f"SELECT pg_cancel_backend(pid) {WAITS}")
        elif how == "dropped":
            other.execute("COMMIT")
        result = dumping.result(PATIENCE)
        other.execute("ROLLBACK")
    assert (result.verdict, "a table stayed locked" in result.error) == (Verdict.NOT_FOR_NOW, True), result
    assert ("ERROR:" in result.error, "FEHLER:" in result.error) == (role == "admin", role == "weak"), result


@pytest.mark.slow
def test_a_right_that_is_missing_is_no_lock_and_the_language_is_named(german: PostgresqlServer) -> None:
    weak = replace(german.source(), options={"user": "weak"}, secret="w")
    assert "ALTER ROLE weak SET lc_messages = 'C'" in questions.look(weak, PATIENCE, Event())
    assert "lc_messages" not in questions.look(german.source(), PATIENCE, Event())
    german.run("ALTER ROLE weak SET lc_messages = 'C'")
    assert "lc_messages" not in questions.look(weak, PATIENCE, Event())
    german.run("REVOKE pg_read_all_data FROM weak")
    with pytest.raises(RunEnded, match=r"may not read the tables public\.orders") as found:
        questions.look(weak, PATIENCE, Event())
    assert found.value.verdict is Verdict.SOURCE_FAILED
