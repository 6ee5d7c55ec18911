"""Secrets that a platform mounts as files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from backupsched import first_run
from backupsched.database import databases
from backupsched.secret_files import read_secret_files
from tests.documents import ROOT

URL = "postgresql://keeper@database:5432/backupsched?sslmode=require"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("hunter2 /@%:ü\n", encoding="utf-8")
    return path


def test_a_file_takes_the_place_of_its_variable_and_processes_below_find_the_secret(secret: Path) -> None:
    found = {"SECRET_KEY_FILE": str(secret), "DATABASE_URL": URL, "DATABASE_PASSWORD_FILE": str(secret)}
    read_secret_files(found)
    assert found["SECRET_KEY"] == "hunter2 /@%:ü"
    assert sorted(found) == ["DATABASE_PASSWORD", "DATABASE_URL", "SECRET_KEY"]
    database = databases(found["DATABASE_URL"], Path())["default"]
    assert [database[each] for each in ("USER", "PASSWORD", "HOST", "PORT", "NAME")] == [
        "keeper", "hunter2 /@%:ü", "database", 5432, "backupsched",
    ]  # fmt: skip
    again = dict(found)
    read_secret_files(again)
    assert again == found


def test_the_environment_wins_over_the_file_of_settings_in_whichever_form_it_gives_a_secret(secret: Path) -> None:
    first_run.write_settings(secret.parent, {"DATABASE_URL": "postgresql://kept", "SECRET_KEY_FILE": "/nowhere"})
    found = {"DATABASE_URL_FILE": str(secret), "SECRET_KEY": "given"}
    first_run.read_settings(secret.parent, found)
    assert found == {"DATABASE_URL_FILE": str(secret), "SECRET_KEY": "given"}


@pytest.mark.parametrize(
    "kept",
    [
        {"DATABASE_URL": URL, "DATABASE_PASSWORD_FILE": "{}"},
        {"DATABASE_URL": URL, "DATABASE_PASSWORD": "hunter2"},
        {"DATABASE_URL_FILE": "{}", "SECRET_KEY_FILE": "{}"},
    ],
)
def test_processes_below_one_that_has_secrets_from_its_file_of_settings_read_that_file_again(
    kept: dict[str, str], secret: Path
) -> None:
    first_run.write_settings(secret.parent, {name: value.format(secret) for name, value in kept.items()})
    found: dict[str, str] = {}
    first_run.read_settings(secret.parent, found)
    assert read_secret_files(found), "what is kept apart is not written elsewhere"
    below = dict(found)
    first_run.read_settings(secret.parent, below)
    read_secret_files(below)
    assert below == found


def test_a_database_that_is_written_into_the_file_of_settings_replaces_each_form_of_the_one_before(
    secret: Path,
) -> None:
    kept = {"DATABASE_URL_FILE": "/gone", "DATABASE_PASSWORD_FILE": "/gone", "LOG_LEVEL": "INFO"}
    first_run.write_settings(secret.parent, kept)
    first_run.write_settings(secret.parent, {"DATABASE_URL": "postgresql://a:b@h/x", "DATABASE_PASSWORD": ""})
    found: dict[str, str] = {}
    first_run.read_settings(secret.parent, found)
    read_secret_files(found)
    assert found == {"DATABASE_URL": "postgresql://a:b@h/x", "DATABASE_PASSWORD": "", "LOG_LEVEL": "INFO"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file or directory. Make that file, readable by"),
        ("", "must hold the secret as its only line"),
        (" \n", "must hold the secret as its only line"),
        ("hunter2\nand more", "must hold the secret as its only line"),
        (b"hunter2\xff", "is not text in UTF-8"),
    ],
)
def test_a_file_that_does_not_do_is_named_without_its_content(content: str | bytes | None, why: str, tmp_path) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = {"SECRET_KEY_FILE": str(path)}
    for _ in range(2):  # Django reads settings that fail once more: nothing may have become of the variable
        with pytest.raises(ImproperlyConfigured) as caught:
            read_secret_files(found)
        assert str(caught.value).startswith(f"SECRET_KEY_FILE: {path} {why}")
        assert "hunter2" not in str(caught.value)


def test_what_contradicts_itself_is_refused(secret: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY and SECRET_KEY_FILE are both set"):
        read_secret_files({"SECRET_KEY_FILE": str(secret), "SECRET_KEY": "x"})
    with pytest.raises(ImproperlyConfigured, match="cannot be read: Is a directory"):
        read_secret_files({"SECRET_KEY_FILE": str(secret.parent)})
    for url in ("", "nonsense", "postgresql://host/name", "postgresql://a:b@host/name"):
        with pytest.raises(
            ImproperlyConfigured, match="a user and no password, as in postgresql://user@host"
        ) as caught:
            read_secret_files({"DATABASE_URL": url, "DATABASE_PASSWORD_FILE": str(secret)})
        assert "hunter2" not in str(caught.value)
    for url in ("postgresql://u@[::1/n", "postgresql://u@::1]/n", "postgresql://u:hunter2@a\u2100b/n"):
        with pytest.raises(ImproperlyConfigured, match="is malformed: its host cannot be read") as caught:
            read_secret_files({"DATABASE_URL": url, "DATABASE_PASSWORD_FILE": str(secret)})
        assert "hunter2" not in str(caught.value)


def test_no_process_starts_with_a_key_of_its_own_where_the_file_of_its_key_is_missing(tmp_path: Path) -> None:
    environment = {**os.environ, "BACKUPSCHED_VAR": str(tmp_path), "SECRET_KEY_FILE": str(tmp_path / "key")}
    environment |= {"DJANGO_SETTINGS_MODULE": "backupsched.settings", "DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    command = (sys.executable, str(ROOT / "manage.py"), "web")
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: SECRET_KEY_FILE: {tmp_path}/key cannot be read: No such file or directory.")
    assert not (tmp_path / "secret_key").exists()
