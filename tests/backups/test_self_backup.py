"""The scheduler's own backup, and the way back on an empty machine."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from pyrage import passphrase, x25519

from alerting.models import AlertRoute
from backups.self_backup import archive, restoring
from backups.self_backup.backing_up import (
    KEEP,
    chosen_repository,
    dump_database,
    plan_for_today,
    print_passphrase,
    self_backup,
)
from backupsched.embedded import Server
from backupsched.embedded.layout import DATABASE
from engines.restores import playing
from external.processes.programs import find_postgresql_program
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import Succeeded
from sources.models import Repository
from storage.places.location import of_directory
from tests.api.asking import Program, make_user
from tests.commands import command
from tests.engines.postgresql_peer import ADMIN, DEBIAN, PASSWORD, postgresql_server
from tests.sources.factories import claim, error_of, make_policy, make_source
from tests.waiting import eventually

PLAN = (
    "from backups.self_backup.backing_up import plan_for_today; assert (plan_for_today(), plan_for_today()) == (1, 0)"
)
BACK_UP = """
from sources.models import Assignment
from sources.planning.requests import back_up_now
assert back_up_now(Assignment.objects.all()) == 1
"""
pytestmark = pytest.mark.slow


def test_what_is_packed_comes_back_for_the_key_alone(tmp_path: Path) -> None:
    identity = x25519.Identity.generate()
    secret = tmp_path / "password"
    secret.write_text("hunter2")
    (tmp_path / archive.DATABASE).write_bytes(b"dump")
    about = archive.About("2026-11-22T03:00:00+00:00", "/var", [["jobs", "0001"]], {"SECRET_KEY": "k"})
    sealed = archive.pack(tmp_path, about, [secret], str(identity.to_public()))

    assert b"hunter2" not in sealed.read_bytes()
    assert "hunter2" not in repr(about)
    with archive.opened(sealed, str(identity)) as (found, tar):
        assert found == about
        content = tar.extractfile(f"{archive.FILES}{secret}")
        assert content is not None
        assert content.read() == b"hunter2"
    sealed.write_bytes(sealed.read_bytes()[:-20])
    with pytest.raises(archive.ArchiveDamaged, match="is damaged"), archive.opened(sealed, str(identity)):
        pass
    assert sorted(each.suffix for each in tmp_path.iterdir()) == ["", ".age", ".dump", ".json"]


def test_a_machine_that_is_too_slow_for_a_key_is_no_wrong_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "TRIES", 2)
    armored = passphrase.encrypt(b"key", "right", armored=True).splitlines()
    raw = base64.b64decode(b"".join(armored[1:-1]))
    work = re.search(rb"-> scrypt \S+ \d+", raw)
    assert work
    of_a_faster_one = raw.replace(work[0], work[0].rpartition(b" ")[0] + b" 40")
    with pytest.raises(archive.TooSlow, match="the passphrase was not tried: this machine is much slower"):
        archive.open_key(of_a_faster_one, "right")


def test_a_file_that_a_killed_restore_left_opens_no_later_key_to_others(tmp_path: Path) -> None:
    (tmp_path / f".secret_key.{os.getpid()}").touch(mode=0o644)
    restoring._write(tmp_path / "secret_key", b"key")
    assert ((tmp_path / "secret_key").stat().st_mode & 0o777, (tmp_path / "secret_key").read_bytes()) == (0o600, b"key")


@pytest.mark.django_db(transaction=True)
def test_it_writes_over_no_key_of_another_installation_and_into_no_empty_mount_point_or_installation(
    tmp_path: Path, settings: Any
) -> None:
    settings.SELF_BACKUP_TO, settings.VAR_DIR = "vualt", tmp_path
    vault = tmp_path / "vault"
    repository = Repository.objects.create(name="vault", location=str(vault))
    key = vault / archive.FOLDER / archive.KEY
    key.parent.mkdir(parents=True)
    key.write_text("opens the archives of the scheduler before")
    assert plan_for_today() == 1, "so that it is missed"
    run = Run(claim("default", database_clock()))
    assert "no repository vualt, which BACKUPSCHED_SELF_BACKUP_TO names" in error_of(self_backup(run))
    settings.SELF_BACKUP_TO = "vault"
    assert "holds the backups of another installation" in error_of(self_backup(run))
    assert key.read_text() == "opens the archives of the scheduler before"
    assert list(key.parent.iterdir()) == [key]
    key.unlink()
    assert isinstance(self_backup(run), Succeeded)
    repository.refresh_from_db()
    assert repository.made_at is not None
    shutil.rmtree(vault)
    vault.mkdir()
    assert "is it mounted?" in error_of(self_backup(run))
    assert list(vault.iterdir()) == []
    _, refused = command("database restore")
    assert "no backup of the scheduler" in refused(vault, "--list")
    (tmp_path / "paper").touch()
    assert "this installation is not empty" in refused(vault, "--passphrase-file", tmp_path / "paper")


@pytest.mark.django_db(transaction=True)
def test_it_goes_only_where_a_superuser_has_pointed_a_repository(tmp_path: Path, settings: Any) -> None:
    settings.SELF_BACKUP_TO, settings.VAR_DIR = "", tmp_path / "var"
    settings.VAR_DIR.mkdir()
    editor = Program(make_user("add_repository", "change_repository", "view_repository", "use_any_folder"))
    made = editor.ask("POST", "repositories", {"name": "vault", "location": str(tmp_path / "of an editor")})
    assert made.status_code == 201, made.content
    assert plan_for_today() == 1, "so that it is missed"
    run = Run(claim("default", database_clock()))
    for named in ("", "vault"):
        settings.SELF_BACKUP_TO = named
        assert "not a superuser" in error_of(self_backup(run))
    assert not (tmp_path / "of an editor" / archive.FOLDER).exists()

    settings.SELF_BACKUP_TO = ""
    ours = Repository.objects.create(name="ours", location=str(tmp_path / "ours"))
    assert chosen_repository() == ours
    assert editor.ask("PATCH", f"repositories/{ours.pk}", {"name": "theirs"}).status_code == 200
    assert chosen_repository() is None, "a name is what BACKUPSCHED_SELF_BACKUP_TO goes by"
    boss = make_user(is_superuser=True)
    assert Program(boss).ask("PATCH", f"repositories/{ours.pk}", {"name": "ours"}).status_code == 200
    assert chosen_repository() == ours


@pytest.mark.django_db(transaction=True)
def test_it_is_the_last_one_after_a_clock_that_was_ahead_and_holds_all_files_with_secrets(
    tmp_path: Path, settings: Any
) -> None:
    settings.SELF_BACKUP_TO, settings.VAR_DIR = "vault", tmp_path
    vault = tmp_path / "vault"
    Repository.objects.create(name="vault", location=str(vault))
    files = [tmp_path / name for name in ("url of a route", "url of a ping", "password")]
    for each in files:
        each.write_text("hunter2")
    route, ping, password = (f"file:{each}" for each in files)
    make_policy(ping_url=ping)
    make_source(secrets={"pass": password})
    AlertRoute.objects.create(name="chat", url=route)
    (vault / archive.FOLDER).mkdir(parents=True)
    for day in range(10, 24):
        (vault / archive.FOLDER / f"209911{day}T030000Z{archive.ENDING}").touch()
    plan_for_today()
    run = Run(claim("default", database_clock()))
    place = of_directory(vault)
    for number in range(2, 5):
        outcome = self_backup(run)
        assert isinstance(outcome, Succeeded)
        made = outcome.result
        names = restoring.archives(place)
        assert (names[-1], len(names)) == (f"20991123T030000Z-{number}", KEEP)
        assert made.file == f"{archive.FOLDER}/{names[-1]}{archive.ENDING}"
    assert restoring.chosen(names, "20991123T030000Z-3") == "20991123T030000Z-3"
    identity = archive.open_key((vault / archive.FOLDER / archive.KEY).read_bytes(), print_passphrase())
    with archive.opened(vault / made.file, identity) as (_, tar):
        assert {f"{archive.FILES}{each}" for each in files} <= set(tar.getnames())


class Installation:
    """An installation of its own, with its embedded database, in processes."""

    def __init__(self, folder: Path) -> None:
        self.var, self.folder = folder / "var", folder
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("BACKUP", "DATABASE_URL"))}
        self.environment = clean | {"BACKUPSCHED_VAR": str(self.var), "DJANGO_SETTINGS_MODULE": "backupsched.settings"}

    def run(self, *arguments: str, code: int = 0, given: str = "") -> str:
        command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]
        ended = subprocess.run(
            command, env=self.environment, input=given, capture_output=True, text=True, timeout=90, check=False
        )
        assert ended.returncode == code, ended.stderr
        assert "Traceback" not in ended.stderr
        return ended.stderr if code else ended.stdout

    def work_until(self, sql: str) -> None:
        """Run a worker until that statement finds something."""
        command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "worker"]
        with (
            Server(self.var).connect(DATABASE) as connection,
            subprocess.Popen(command, env=self.environment) as worker,
        ):
            try:
                eventually(lambda: connection.execute(sql).fetchone())
            finally:
                worker.terminate()

    def facts(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def destroy(self) -> None:
        self.run("database", "stop")
        shutil.rmtree((self.var / "postgres").resolve(), ignore_errors=True)
        shutil.rmtree(self.var)


def test_the_scheduler_comes_back_on_an_empty_machine_and_goes_on(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    here = Installation(tmp_path)
    data, repository = tmp_path / "data", tmp_path / "repository"
    data.mkdir()
    (data / "letter").write_text("dear")
    fleet = {
        "repositories": [{"name": "vault", "location": str(repository)}],
        "policies": [{"name": "p", "repository": "vault", "cron": "0 0 1 1 *"}],
        "sources": [{"name": "data", "kind": "local", "path": str(data), "policies": ["p"]}],
    }
    (tmp_path / "fleet.json").write_text(json.dumps(fleet))
    here.run("migrate", "--verbosity", "0")
    here.run("apply", str(tmp_path / "fleet.json"))
    (here.var / "secrets").mkdir()
    (here.var / "secrets" / "nas").write_text("hunter2")
    try:
        here.work_until("SELECT 1 FROM sources_backup")
        here.run("shell", "--verbosity", "0", "-c", PLAN)
        here.work_until("SELECT 1 FROM sources_selfbackup WHERE ended_at IS NOT NULL")
        (made,) = here.facts("database", "backups")
        assert (repository / made["file"]).stat().st_size == made["size"]
        passphrase = here.run("database", "passphrase").split("\n\n")[1].strip()
        key = (here.var / "secret_key").read_bytes()
        here.destroy()

        assert "does not open" in here.run("database", "restore", str(repository), code=2, given="WRONG")
        here.environment["SECRET_KEY"] = "of this machine's own unit"
        said = here.run("database", "restore", str(repository), given=f" {passphrase}\n")
        assert "Its environment was different: SECRET_KEY." in said, "it would open no stored secret"
        assert (here.var / "restored.env").read_text() == f"SECRET_KEY={key.decode()}\n"
        del here.environment["SECRET_KEY"]

        assert (here.var / "secret_key").read_bytes() == key
        assert (here.var / "secrets" / "nas").read_text() == "hunter2"
        assert (here.var / "secrets" / "nas").stat().st_mode & 0o777 == 0o600
        (data / "letter").write_text("dear all")
        here.run("shell", "--verbosity", "0", "-c", BACK_UP)
        here.work_until("SELECT 1 FROM sources_backup OFFSET 1")
    finally:
        here.destroy()


@pytest.mark.django_db(transaction=True)
def test_it_comes_back_into_a_server_that_is_older_than_its_programs(tmp_path: Path, settings: Any) -> None:
    """And where the dump is cut off, or an object of it is not taken, nothing of it stays."""
    settings.SELF_BACKUP_TO, settings.VAR_DIR = "vault", tmp_path / "here"
    settings.VAR_DIR.mkdir()
    vault = tmp_path / "vault"
    Repository.objects.create(name="vault", location=str(vault))
    make_source(name="nas ž")
    plan_for_today()
    assert isinstance(self_backup(Run(claim("default", database_clock()))), Succeeded)
    with postgresql_server(DEBIAN) as server:
        there = Installation(tmp_path / "there")
        where = f"{quote(ADMIN)}:{quote(PASSWORD, safe='')}@{quote(str(server.folder), safe='')}"
        there.environment["DATABASE_URL"] = f"postgresql://{where}/scheduler"
        server.run("CREATE DATABASE scheduler;; CREATE DATABASE half")
        there.run("database", "restore", str(vault), given=print_passphrase())
        assert server.ask("SELECT name FROM sources_source", "scheduler") == [("nas ž",)]
        assert server.ask("SELECT count(*) FROM django_migrations", "scheduler")[0][0] > 50

        dump = tmp_path / "dump"
        dump_database(dump, Event())
        os.truncate(dump, dump.stat().st_size - 2_000)
        read = (find_postgresql_program("pg_restore"), "--no-owner", str(dump))
        environment = {"PGHOST": str(server.folder), "PGUSER": ADMIN, "PGPASSWORD": PASSWORD, "PGDATABASE": "half"}
        play = playing.command(read, (find_postgresql_program("psql"),))
        assert subprocess.run(play, env=environment, capture_output=True, check=False).returncode == 1
        assert server.ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", "half") == [(0,)]
