"""A restore of a database asks its server first, and does that alone if it was asked for: by command, API and form."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from sources.models import Restore
from tests.api.asking import Program, fields_of, make_user
from tests.backups.restores.asking import ask, work
from tests.backups.restores.databases_here import alone_with_roles, database_of_the_tests
from tests.engines.peers import back_up as dump
from tests.sources.factories import make_assignment, make_source, policy_into

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]

ROLE, OTHER, NEW = "looked_at_role", "looked_at_other", "looked_at_database"
LACKS = f"role {ROLE}: REPLICATION was left out: `ALTER ROLE … REPLICATION` gives it back"


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A database that was backed up with a role that its server has no longer. Returns the id of its source."""
    settings.VAR_DIR = tmp_path / "var"
    source = database_of_the_tests()
    if source.secret:
        monkeypatch.setenv("BACKUP_SECRET_SHOP", source.secret)
    facts = {name: getattr(source, name) for name in ("kind", "address", "port", "path", "options")}
    row = make_source(name="shop", secret="env:BACKUP_SECRET_SHOP" if source.secret else "", **facts)
    assignment = make_assignment(policy_into(tmp_path / "repository", "disk"), row, directory="shop")
    with alone_with_roles(), psycopg.connect(**connection.get_connection_params(), autocommit=True) as server:
        server.execute(f"DROP ROLE IF EXISTS {ROLE}")
        server.execute(f"CREATE ROLE {ROLE} REPLICATION")
        try:
            assert dump(source, tmp_path / "repository" / assignment.directory).snapshot
        finally:
            server.execute(f"DROP ROLE {ROLE}")
        yield row.pk
        server.execute(f"DROP DATABASE IF EXISTS {NEW}")
        for each in (ROLE, OTHER):
            server.execute(f"DROP ROLE IF EXISTS {each}")


def there() -> list[str]:
    with psycopg.connect(**connection.get_connection_params()) as server:
        rows = "SELECT datname FROM pg_database UNION SELECT rolname FROM pg_roles"
        return sorted(name for (name,) in server.execute(rows) if name.startswith("looked_at"))


def restore(*arguments: str) -> None:
    call_command("restores", "run", "shop", *arguments)


@pytest.mark.slow
def test_what_would_be_left_out_is_named_and_nothing_is_written(
    shop: int, capsys: pytest.CaptureFixture[str], client: Client
) -> None:
    with pytest.raises(CommandError, match="1 object would be left out"):
        restore("--database", NEW, "--check")
    assert LACKS in capsys.readouterr().out
    restore("--database", NEW, "--check", "--roles-with-rights")

    assert ask(source="shop", to="database", target=NEW, dry_run=True).status_code == 201
    by_api = work()
    assert (by_api.outcome, by_api.failed) == ("incomplete", [LACKS])

    client.force_login(make_user("restore_source", "view_restore", "view_source"))
    page = f"/admin/sources/source/{shop}/restore/"
    client.post(page, {"to": "database", "target": NEW, "dry_run": "on", "roles_with_rights": "on"})
    assert work().outcome == "succeeded"
    assert there() == []


@pytest.mark.slow
def test_a_database_comes_back_by_a_command_with_roles_that_were_allowed(shop: int) -> None:
    restore("--database", NEW, "--roles-with-rights")
    assert there() == [NEW, ROLE]
    assert not Restore.objects.exists()
    with psycopg.connect(**connection.get_connection_params()) as server:
        asked = "SELECT rolreplication FROM pg_roles WHERE rolname = %s"
        assert server.execute(asked, (ROLE,)).fetchone() == (True,)
    with pytest.raises(CommandError, match=f"there is a database '{NEW}' at shop already"):
        restore("--database", NEW)


@pytest.mark.slow
def test_another_account_restores_with_a_secret_that_is_forgotten_then(
    shop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKUP_SECRET_OTHER", "o")
    other = {"user": OTHER, "secret": "env:BACKUP_SECRET_OTHER"}
    wish = {"source": "shop", "to": "database", "target": NEW, **other}
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as server:
        server.execute(f"CREATE ROLE {OTHER} LOGIN CREATEDB CREATEROLE PASSWORD 'o'")
    assert "ask an administrator" in fields_of(ask(**wish))["secret"]
    for wrong, text in (
        ({"secret": ""}, "give both"),
        ({"secret": "o"}, "must say where the password is found"),
        ({"to": "folder", "target": "/srv/x"}, "is for a new database"),
    ):
        assert text in fields_of(ask(**wish | wrong))["secret"]

    account = make_user("restore_source", "view_restore", "set_secret_of_source")
    assert Program(account, scopes=("operate",)).post("restores", wish).status_code == 201
    [row] = Restore.objects.all()
    assert row.secret == "env:BACKUP_SECRET_OTHER"
    restore_row = work()
    assert (restore_row.outcome, restore_row.secret) == ("incomplete", ""), restore_row.error
    with psycopg.connect(**connection.get_connection_params()) as server:
        owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = %s"
        assert server.execute(owner, (NEW,)).fetchone() == (OTHER,), "it may not give it to another"
    monkeypatch.setenv("BACKUP_SECRET_OTHER", "wrong")
    with pytest.raises(CommandError, match="password authentication failed"):
        restore("--database", f"{NEW}2", "--user", OTHER, "--secret", "env:BACKUP_SECRET_OTHER")
