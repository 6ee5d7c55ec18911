"""Programs and tables of different versions, as real processes: who works, who refuses, and what is said."""

import psycopg
import pytest

from tests.upgrades.newer import (
    EXPANDS,
    HERE,
    NEWER,
    NEWEST,
    empty_installation,
    empty_url,
    installation,
    version_with,
)
from tests.waiting import PATIENCE, eventually

__all__ = ["empty_installation", "empty_url", "installation"]

pytestmark = pytest.mark.slow

TOO_NEW = (
    "the database is of a newer version, with tables that this one cannot use (it has no audit 9001_more). What to "
    "do: install here the version that migrated it, then start again."
)
PROCESSES = ("worker",), ("web", "--listen", "127.0.0.1:0"), ("qcluster",)
COMMANDS = *PROCESSES, ("backlog",), ("apply", "nothing.json"), ("migrate",)
ASKED = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE %s"
)
BUILDS = f"""
from django.db import migrations, models
from jobs.online import BuildIndex
class Migration(migrations.Migration):
    atomic = False
    dependencies = [("audit", "{max(HERE)}")]
    operations = [BuildIndex("auditentry", models.Index(fields=["verb"], name="by_more"))]
"""
LOOKS_OFTEN = """
import sys
import django
django.setup()
from jobs.worker import upgrades
upgrades.LOOK_EVERY_SECONDS = 0.2
from backupsched.command_line import main
sys.exit(main())
"""
NEEDS = "SELECT obj_description('django_migrations'::regclass, 'pg_class')"


def test_an_older_program_works_with_expanded_tables_and_refuses_contracted_ones_in_one_sentence(installation):
    code, said = installation.end_of("migrate", migrations=NEWER)
    assert code == 0, said
    worker = installation.start("worker", "--grace", "0")
    eventually(lambda: " serves " in installation.log(1) or worker.poll() is not None)
    assert "the database has 1 migration of a newer version: audit 9001_more; this version works" in installation.log(1)
    assert installation.end_of("backlog")[0] == 0
    code, said = installation.end_of("migrate")
    assert (code, "nothing was migrated" in said) == (0, True)
    worker.terminate()
    assert worker.wait(PATIENCE) == 0

    assert installation.end_of("migrate", migrations=NEWEST)[0] == 0
    for command, code, said in installation.ends_of(*COMMANDS):
        assert (command, code, said.strip()) == (command, 2, f"Error: {TOO_NEW}")
    for _, code, said in installation.ends_of(("backlog",), ("migrate",), migrations=NEWER):
        assert code == 0, f"one version back: {said}"


def test_a_newer_program_names_migrate(installation):
    lacks = "the database lacks 1 migration: audit 9001_more. What to do: stop the workers, manage.py migrate, start"
    for command, code, said in installation.ends_of(*PROCESSES, ("run", "--listen", "127.0.0.1:0"), migrations=NEWER):
        assert (command, code, said.count("\n"), lacks in said) == (command, 2, 1, True)


def test_a_need_is_written_before_anything_is_removed_and_forgotten_when_it_is_brought_back(installation):
    breaks = {**NEWEST, "9002_less": NEWEST["9002_less"].replace("COLUMN more", "COLUMN there_is_none")}
    assert installation.end_of("migrate", migrations=breaks)[0] != 0
    assert installation.end_of("backlog")[1].strip() == f"Error: {TOO_NEW}"
    with psycopg.connect(installation.url, autocommit=True) as connection:
        assert connection.execute(NEEDS).fetchone() == ("programs need: audit.9001_more",)
        assert installation.end_of("migrate", "audit", "9001", migrations=NEWER)[0] == 0
        assert connection.execute(NEEDS).fetchone() == (None,)


def test_a_migration_that_waits_for_a_lock_gives_up_in_one_sentence_and_is_run_again(installation):
    locks = {**HERE, "9001_more": EXPANDS.replace("audit_entry ADD", "jobs_backlogrecord ADD")}
    with psycopg.connect(installation.url, application_name="a dump") as holder:
        holder.execute("LOCK TABLE jobs_backlogrecord IN ACCESS SHARE MODE")
        code, said = installation.end_of("migrate", "--lock-timeout", "0.2s", "-v0", migrations=locks)
        assert (code, said.count("\n")) == (1, 1)
        assert said.startswith(
            "Error: waited 200 ms for a lock and gave up at audit.9001_more; the oldest transaction is"
        )
        assert f"process {holder.info.backend_pid} (a dump)" in said
        audited = "SELECT 1 FROM pg_trigger WHERE tgname = 'audit_of_sources_source'"
        assert holder.execute(audited).fetchone(), "changes of users are seen meanwhile"
    assert installation.end_of("migrate", migrations=locks)[0] == 0
    with psycopg.connect(installation.url) as connection:
        connection.execute("SELECT more FROM jobs_backlogrecord")


def test_a_migration_that_gave_up_waits_no_longer_for_a_trigger_and_makes_all_others(installation):
    locks = {**HERE, "9001_more": EXPANDS.replace("audit_entry ADD", "sources_source ADD")}
    made = "SELECT array_agg(tgname ORDER BY tgname) FROM pg_trigger WHERE tgname LIKE 'audit_of_%'"
    with psycopg.connect(installation.url, autocommit=True) as connection, psycopg.connect(installation.url) as holder:
        (before,) = connection.execute(made).fetchone()
        # as a run that was killed leaves it
        connection.execute("DROP TRIGGER audit_of_sources_source ON sources_source")
        holder.execute("LOCK TABLE sources_source IN ROW EXCLUSIVE MODE")
        migrate = installation.start("migrate", "--lock-timeout", "0.2s", "-v0", migrations=locks)
        assert migrate.wait(PATIENCE) == 1, installation.log(0)
        assert installation.log(0).startswith("Error: waited 200 ms for a lock and gave up at audit.9001_more; the")
        (after,) = connection.execute(made).fetchone()
        assert set(before) - set(after) == {"audit_of_sources_source"}
        holder.rollback()
        assert installation.end_of("migrate", migrations=locks)[0] == 0
        assert connection.execute(made).fetchone() == (before,)


def test_one_that_waits_for_another_does_not_stop_the_building_of_its_index(installation):
    builds = {**HERE, "9001_more": BUILDS}
    with psycopg.connect(installation.url, autocommit=True) as look, psycopg.connect(installation.url) as holder:
        holder.execute("LOCK TABLE audit_entry IN ROW EXCLUSIVE MODE")
        both = [installation.start("migrate", "--lock-timeout", "60s", migrations=builds)]
        eventually(lambda: look.execute(ASKED, ["CREATE INDEX CONCURRENTLY%"]).fetchone())
        both.append(installation.start("migrate", "--lock-timeout", "60s", migrations=builds))
        eventually(lambda: look.execute(ASKED, ["%advisory_lock%"]).fetchone())
        holder.rollback()
        assert [each.wait(PATIENCE) for each in both] == [0, 0], (installation.log(0), installation.log(1))
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'by_more'::regclass"
        assert look.execute(valid).fetchone() == (True,)


def test_older_ones_that_waited_for_a_newer_one_leave_its_triggers(installation):
    commands = {("migrate",): 0, ("migrate", "audit"): 0, ("migrate", "sources", "0001"): 2}
    with psycopg.connect(installation.url, autocommit=True) as newer:
        newer.execute("SELECT pg_advisory_lock(hashtext('migrate'), 0)")
        older = [installation.start(*command, "--lock-timeout", "60s") for command in commands]
        eventually(lambda: len(newer.execute(ASKED, ["%advisory_lock%"]).fetchall()) == len(older))
        newer.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('audit', '9001_more', now())")
        newer.execute("COMMENT ON TRIGGER audit_of_sources_source ON sources_source IS 'newer'")
        newer.execute("SELECT pg_advisory_unlock(hashtext('migrate'), 0)")
        assert [each.wait(PATIENCE) for each in older] == list(commands.values())
        told = "SELECT obj_description(oid) FROM pg_trigger WHERE tgname = 'audit_of_sources_source'"
        assert newer.execute(told).fetchone() == ("newer",)
    for number, _ in enumerate(older):
        assert "the database has 1 migration of a newer version: audit 9001_more" in installation.log(number)


def test_two_do_not_migrate_at_once(installation):
    with psycopg.connect(installation.url) as other:
        other.execute("SELECT pg_advisory_lock(hashtext('migrate'), 0)")
        code, said = installation.end_of("migrate", "--lock-timeout", "0.2s", migrations=NEWER)
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("Error: another `manage.py migrate` works on this database: wait until it has ended")


def started_pages_and_tasks(installation, name):
    """`web` and `qcluster` of the version before, at work, and the folder of its migrations of the audit."""
    older = version_with({**HERE}, installation.directory / name)
    first = len(installation.started)
    both = [
        installation.run("-W", "ignore", "-c", LOOKS_OFTEN, *each, DATABASE_URL=installation.url, **older)
        for each in PROCESSES[1:]
    ]
    for number, (each, line) in enumerate(zip(both, ("http://", " running."), strict=True), first):
        eventually(lambda n=number, e=each, line=line: line in installation.log(n) or e.poll() is not None)
    return both, installation.directory / name / f"version{len(HERE)}" / "migrations"


def test_pages_and_periodic_tasks_continue_on_expanded_tables_and_end_once_they_are_outdated(installation):
    both, folder = started_pages_and_tasks(installation, "host upgraded last")
    assert installation.end_of("migrate", migrations=NEWER)[0] == 0
    for number, process in enumerate(("this web process", "this qcluster")):
        ahead = f"audit 9001_more; {process} continues"
        eventually(lambda n=number, ahead=ahead: ahead in installation.log(n) or both[n].poll() is not None)
        assert ahead in installation.log(number)
    (folder / "9001_more.py").write_text("from jobs.online import WhatOnlyTheNewVersionHas")
    assert [each.wait(PATIENCE) for each in both] == [2, 2]

    first = len(installation.started)
    both, _ = started_pages_and_tasks(installation, "tables contracted")
    assert installation.end_of("migrate", migrations=NEWEST)[0] == 0
    assert [each.wait(PATIENCE) for each in both] == [2, 2]
    for number, found in enumerate(("another version was installed on this host", "the database was migrated")):
        for process, log in zip(("web process", "qcluster"), (number * first, number * first + 1), strict=True):
            said = installation.log(log)
            assert said.count(f"{found} after this {process} started") == 1
            assert said.endswith("started. What to do: start the newer version here.\n")


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("CREATE TABLE auth_user (id int)", "auth_user"),
        ("CREATE TABLE django_migrations (id bigserial, app text, name text, applied timestamptz)", "blog"),
    ],
)
def test_a_database_of_another_program_is_left_as_it_is(made, named, empty_installation):
    with psycopg.connect(empty_installation.url, autocommit=True) as connection:
        connection.execute(made)
        if named == "blog":
            connection.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('blog', '0001_x', now())")
        code, said = empty_installation.end_of("migrate", "-v0")
        assert (code, said.count("\n")) == (2, 1)
        assert said.startswith(f"Error: this database belongs to another program: it has {named}. Nothing was changed.")
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (1,)


def test_tables_of_others_in_another_schema_do_not_matter(empty_installation):
    with psycopg.connect(empty_installation.url, autocommit=True) as connection:
        connection.execute('CREATE TABLE public.auth_user (id int); CREATE SCHEMA "Our own"')
        connection.execute(f'ALTER DATABASE {connection.info.dbname} SET search_path = "Our own", public')
        assert empty_installation.end_of("migrate", "-v0", "--plan")[0] == 0
        connection.execute('CREATE VIEW "Our own".django_session AS SELECT 1')
        code, said = empty_installation.end_of("migrate", "-v0", "--plan")
        assert (code, "another program: it has django_session." in said) == (2, True)
