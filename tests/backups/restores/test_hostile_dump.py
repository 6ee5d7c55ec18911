"""A dump of PostgreSQL that somebody else wrote reaches nothing but its own database, unless a user trusts it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engines.base import SourceSpec
from engines.restores import postgresql
from engines.restores.pg import owners
from engines.restores.terms import Terms
from storage.restoring.base import Report, RestoreRefused, Wish
from tests.backups.restores.databases_here import databases, shop
from tests.engines.peers import back_up
from tests.engines.postgresql_peer import DEBIAN, PostgresqlServer, postgresql_server
from tests.storage.building import ASSIGNMENT, Built

pytestmark = pytest.mark.slow

HOSTILE = """
CREATE FUNCTION do_it(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF current_database() = 'shop' THEN RETURN n; END IF;
  BEGIN EXECUTE 'ALTER ROLE bystander SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END;
  BEGIN EXECUTE 'SET ROLE admin'; EXECUTE 'ALTER ROLE bystander CREATEROLE'; EXCEPTION WHEN OTHERS THEN NULL; END;
  BEGIN EXECUTE 'COPY (SELECT 1) TO ''/tmp/of_a_hostile_pg_dump'''; EXCEPTION WHEN OTHERS THEN NULL; END;
  BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = evil', current_database());
    EXECUTE format('GRANT CREATE ON DATABASE %I TO bystander, PUBLIC', current_database());
  EXCEPTION WHEN OTHERS THEN NULL; END;
  RETURN n;
END$$;;
CREATE FUNCTION act(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN public.do_it(n); END$$;;
CREATE TABLE checked (n int CHECK (act(n) = n));;
INSERT INTO checked VALUES (1);;
CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n;;
CREATE INDEX by_act ON orders (act(n));;
CREATE MATERIALIZED VIEW acted AS SELECT act(n) FROM orders;;
CREATE TABLE plain AS SELECT 1 AS n;;
CREATE FUNCTION says() RETURNS text LANGUAGE sql AS $$SELECT '
ALTER TABLE public.plain ALTER COLUMN n TYPE int USING public.do_it(n), OWNER TO app;
ALTER TABLE public.checked OWNER TO app;
CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public;
'$$;;
COMMENT ON TABLE checked IS '
ALTER TABLE public.checked OWNER TO app;
';;
CREATE FUNCTION later() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'ALTER ROLE bystander SUPERUSER';;
CREATE TABLE app_orders AS SELECT 1 AS n;;
ALTER TABLE app_orders OWNER TO app;;
GRANT CREATE ON SCHEMA public TO app
"""


@pytest.fixture(scope="module")
def old() -> Iterator[PostgresqlServer]:
    with postgresql_server(DEBIAN) as server:
        server.run("CREATE ROLE bystander;; CREATE ROLE app")
        server.run("CREATE ROLE weak LOGIN CREATEDB PASSWORD 'w'")
        server.run("CREATE ROLE maker LOGIN CREATEDB CREATEROLE PASSWORD 'm'")
        shop(server, HOSTILE)
        yield server


@pytest.fixture
def built(old: PostgresqlServer, tmp_path: Path) -> tuple[Built, str]:
    """A point of the hostile database, as its server's superuser backs it up."""
    made = Built(tmp_path / "built")
    result = back_up(old.source(), made.folder / "repository" / ASSIGNMENT)
    assert result.snapshot, result.error
    return made, result.snapshot


def restore(
    built: tuple[Built, str], source: SourceSpec, name: str, *, trusted: bool = False, dry_run: bool = False
) -> Report:
    wish = Wish(ASSIGNMENT, built[1], Path(name), dry_run=dry_run)
    cache, terms = built[0].folder / "cache", Terms(trusted=trusted)
    return postgresql.create(wish, built[0].store, source, cache, lambda step: None, terms=terms)


def bystander(server: PostgresqlServer) -> tuple[bool, bool]:
    [found] = server.ask("SELECT rolsuper, rolcreaterole FROM pg_roles WHERE rolname = 'bystander'")
    return found[0], found[1]


def ours(server: PostgresqlServer) -> list[str]:
    return [name for (name,) in server.ask("SELECT rolname FROM pg_roles WHERE rolname ^@ 'backupsched_'")]


@pytest.mark.promise
def test_what_a_dump_runs_reaches_nothing_while_it_is_loaded_and_after_it(
    old: PostgresqlServer, built: tuple[Built, str]
) -> None:
    report = restore(built, old.source(), "mine")
    assert report.failed == []
    assert (bystander(old), Path("/tmp/of_a_hostile_pg_dump").exists()) == ((False, False), False)
    [role] = ours(old)
    assert f"objects belong to {role}, which cannot log in" in "".join(report.not_set)
    owned = "SELECT relname, pg_get_userbyid(relowner) FROM pg_class WHERE relkind IN ('r', 'm') AND oid > 16383"
    assert {*old.ask(owned, "mine")} == {
        *((name, role) for name in ("orders", "acted", "checked", "plain")),
        ("app_orders", "app"),
    }
    [(can_login, bypasses)] = old.ask(f"SELECT rolcanlogin, rolbypassrls FROM pg_roles WHERE rolname = '{role}'")
    assert (can_login, bypasses) == (False, False)
    [(owner, rights)] = old.ask("SELECT datdba::regrole::text, datacl::text FROM pg_database WHERE datname = 'mine'")
    assert (owner, {*rights.strip("{}").split(",")}) == ("admin", {"=Tc/admin", "admin=CTc/admin"})
    assert old.ask("SHOW search_path", "mine") == [('"$user", public',)], "no setting of its own"
    assert old.ask("SELECT extname FROM pg_extension WHERE extname <> 'plpgsql'", "mine") == []
    old.run("ANALYZE orders", "mine")
    old.run("VACUUM (ANALYZE)", "mine")
    assert bystander(old) == (False, False), "as autovacuum does"
    old.run(f"REASSIGN OWNED BY {role} TO admin", "mine")
    old.run(f"DROP ROLE {role}")

    restore(built, old.source(), "trusting", trusted=True)
    assert bystander(old) == (True, True), "this is what that keeps away"
    old.run("ALTER ROLE bystander NOSUPERUSER NOCREATEROLE")
    Path("/tmp/of_a_hostile_pg_dump").unlink()


def test_where_no_such_login_can_be_made_a_person_has_to_allow_it_each_time(
    old: PostgresqlServer, built: tuple[Built, str]
) -> None:
    weak = replace(old.source(), options={"user": "weak"}, secret="w")
    for dry_run in (True, False):
        with pytest.raises(RestoreRefused, match=r"with all rights of weak at .*ALTER ROLE weak CREATEROLE.*--trusted"):
            restore(built, weak, "weakly", dry_run=dry_run)
    assert (ours(old), "weakly.unfinished" in databases(old)) == ([], False)
    report = restore(built, weak, "weakly", trusted=True)
    assert old.ask("SELECT count(*) FROM public.orders", "weakly") == [(10,)]
    assert {each.partition(": ")[0] for each in report.failed} >= {"TABLE public.app_orders"}

    # a server that lets in whom it knows by name
    rules = old.folder / "data/pg_hba.conf"
    before = rules.read_text()
    rules.write_text("local all admin,weak,maker scram-sha-256\n")
    old.run("SELECT pg_reload_conf()")
    try:
        with pytest.raises(RestoreRefused, match=r"does not let in a login that was made for it .no pg_hba.conf entry"):
            restore(built, old.source(), "unknown")
    finally:
        rules.write_text(before)
        old.run("SELECT pg_reload_conf()")
    assert (ours(old), {"unknown", "unknown.unfinished"} & databases(old)) == ([], set())


def test_an_account_that_may_make_roles_needs_no_superuser(old: PostgresqlServer, built: tuple[Built, str]) -> None:
    maker = replace(old.source(), options={"user": "maker"}, secret="m")
    old.run("GRANT app TO maker")
    report = restore(built, maker, "made")
    assert old.ask("SELECT count(*) FROM orders", "made") == [(10,)]
    [role] = ours(old)
    assert {each.partition(": ")[0] for each in report.failed} <= {"DATABASE owner admin"}, report.failed
    owner = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'app_orders'"
    assert old.ask(owner, "made") == [("app",)], report
    old.run("DROP DATABASE made")
    old.run(f"DROP ROLE {role}")


def test_a_statement_goes_to_the_server_alone(old: PostgresqlServer) -> None:
    with old.connect("shop") as inside:
        assert owners.run_alone(inside, b"ALTER TABLE app_orders OWNER TO app; DROP TABLE app_orders;") == "42601"
        assert owners.run_alone(inside, b"COMMENT ON TABLE app_orders IS 'x'; DROP TABLE app_orders") == "42601"
        assert owners.run_alone(inside, b"ALTER TABLE app_orders OWNER TO app;") == ""
    assert old.ask("SELECT count(*) FROM app_orders", "shop") == [(1,)]
