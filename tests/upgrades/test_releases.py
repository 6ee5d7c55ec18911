"""The database of each release becomes that of this version: its rows hold, its tables are those of a new one, and it
backs up."""

import gzip
import json
import subprocess

import psycopg
import pytest

from external.processes.programs import find_postgresql_program
from proving.upgrades import releases
from proving.upgrades.fixture import FLEET, SECRET_KEY
from proving.upgrades.releases import ROOT
from tests.jobs.worker_processes import database_url
from tests.upgrades.candidates import OLDER
from tests.upgrades.newer import empty_installation, empty_url
from tests.waiting import eventually

__all__ = ["empty_installation", "empty_url"]

pytestmark = [pytest.mark.slow, pytest.mark.long]

EMPTY = {"sources_pause", "jobs_lane", "api_apitoken", "sources_foresight", "sources_manifestdigest"}
"""Tables without rows in a fixture, or that its release did not have."""
SNOOZED = "UPDATE sources_source SET snoozed_until = now() + interval '1 day' WHERE name <> 'papers'"
UNTIL = "SELECT DISTINCT paused_by_user, paused_until > now() FROM sources_source WHERE name <> 'papers'"
TABLES = "SELECT tablename FROM pg_tables WHERE tablename ~ '^(delivery|jobs|schedules|sources)_'"
BACKUPS = "SELECT count(*) FROM sources_backup WHERE snapshot <> '' AND ended_at > %s"
ROWS_HOLD = str(ROOT / "proving/upgrades/rows_hold.py")


def schema_of(url: str) -> list[str]:
    """The statements that make its tables, without what differs between any two dumps."""
    dump = [find_postgresql_program("pg_dump"), "--schema-only", "--no-owner", "--no-privileges", url]
    lines = subprocess.run(dump, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if line.strip() and not line.startswith(("--", "\\", "SET "))]


@pytest.mark.parametrize("release", [OLDER, *releases.read().releases], ids=lambda each: each.version)
def test_the_database_of_a_release_becomes_that_of_this_version(release, empty_installation, tmp_path):
    installation, url = empty_installation, empty_installation.url
    psql = [find_postgresql_program("psql"), "--quiet", "--set=ON_ERROR_STOP=1", url]
    subprocess.run(psql, input=gzip.decompress(release.database.read_bytes()), stdout=subprocess.DEVNULL, check=True)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/letter").write_text("precious")
    with psycopg.connect(url, autocommit=True) as connection:
        if release is OLDER:
            connection.execute(SNOOZED)
        code, said = installation.end_of("migrate", "-v0", SECRET_KEY=SECRET_KEY)
        assert (code, said) == (0, "")
        if release is OLDER:
            assert connection.execute(UNTIL).fetchall() == [(True, True)]
        assert schema_of(url) == schema_of(database_url())

        looked = installation.run(ROWS_HOLD, DATABASE_URL=url, SECRET_KEY=SECRET_KEY)
        assert looked.wait() == 0, installation.log(1)
        found = json.loads(installation.log(1).splitlines()[-1])
        assert found["problems"] == {}
        assert {table for (table,) in connection.execute(TABLES)} - found["rows"].keys() <= EMPTY

        fleet = FLEET.replace('"papers"', '"letters"').replace('"here"', '"there"').replace('"always"', '"each minute"')
        (tmp_path / "fleet.json").write_text(
            fleet.replace("REPOSITORY", str(tmp_path / "repository")).replace("PAPERS", str(tmp_path / "papers"))
        )
        code, said = installation.end_of("apply", str(tmp_path / "fleet.json"), SECRET_KEY=SECRET_KEY)
        assert code == 0, said
        assert installation.end_of("backlog", "release", SECRET_KEY=SECRET_KEY)[0] == 0  # it has a hold, too
        began = connection.execute("SELECT now()").fetchone()
        worker = installation.start("worker", "--grace", "5", SECRET_KEY=SECRET_KEY)
        eventually(lambda: connection.execute(BACKUPS, began).fetchone() == (1,) or worker.poll() is not None)
        worker.terminate()
        worker.wait()
        assert connection.execute(BACKUPS, began).fetchone() == (1,), installation.log(4)
        installation.end_of("doctor", "--json", SECRET_KEY=SECRET_KEY)
        examined = {each["name"]: each["severity"] for each in json.loads(installation.log(5))}
        assert (examined["migrations"], examined["table_settings"], examined["dates"]) == ("ok", "ok", "ok")
