"""Where passwords are found: attacks on the files and variables of the worker, and what works."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from declarations.problems import validated
from sealing.lookup import LONGEST_SECRET, SecretNotFound, check_reference, read_secret
from sources.declarations.policies import PolicyDeclaration


@pytest.fixture
def secrets(tmp_path: Path, settings: Any) -> Path:
    settings.SECRETS_DIRECTORIES = [tmp_path / "secrets"]
    (tmp_path / "secrets").mkdir()
    return tmp_path / "secrets"


def test_a_secret_is_read_from_the_environment_or_a_file(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKUP_SECRET_NAS", "from the environment")
    (secrets / "nas").write_text("from a file \n\n")
    (secrets / "..data").mkdir()
    (secrets / "..data" / "key").write_text("as Kubernetes mounts it")
    (secrets / "key").symlink_to("..data/key")
    (secrets / "longest").write_text("x" * LONGEST_SECRET)
    assert read_secret("env:BACKUP_SECRET_NAS") == "from the environment"
    assert read_secret(f"file:{secrets}/nas") == "from a file \n"
    assert read_secret(f"file:{secrets}/key") == "as Kubernetes mounts it"
    assert read_secret(f"file:{secrets}/longest") == "x" * LONGEST_SECRET
    assert read_secret("") is None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("env:BACKUP_SECRET_NONE", "the environment variable BACKUP_SECRET_NONE is not set; set it for the worker"),
        ("file:{}/none", "the secret file {}/none cannot be read (No such file or directory)"),
        ("file:{}/binary", "the secret file {}/binary is not UTF-8 text"),
        ("file:{}/folder", "the secret file {}/folder cannot be read (Is a directory)"),
        ("file:{}/fifo", "the secret file {}/fifo is not a regular file"),
        ("file:{}/zeros", "the secret file {}/zeros is not a regular file"),
        ("file:{}/long", "the secret file {}/long is longer than 65,536 bytes"),
        ("file:{}/link", "the secret {}/link is in no directory of secrets ({})"),
        ("file:{}/../outside", "the secret {}/../outside is in no directory of secrets ({})"),
        ("file:/etc/shadow", "the secret /etc/shadow is in no directory of secrets ({})"),
        ("env:SECRET_KEY", "the secret SECRET_KEY is not a variable of secrets: name BACKUP_SECRET_…"),
        ("env:DATABASE_URL", "the secret DATABASE_URL is not a variable of secrets"),
        ("swordfish", "the secret must say where the password is found, as stored:NAME, env:NAME or file:/path; never"),
    ],
)
def test_what_is_no_secret_of_a_source_is_refused_in_words_and_never_waited_for(
    reference: str, message: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "of the worker")
    monkeypatch.setenv("DATABASE_URL", "of the worker")
    (secrets / "binary").write_bytes(b"\xff\xfe")
    (secrets / "folder").mkdir()
    os.mkfifo(secrets / "fifo")
    if os.geteuid() == 0:
        os.mknod(secrets / "zeros", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    else:
        os.mkfifo(secrets / "zeros")
    (secrets / "long").write_bytes(bytes(LONGEST_SECRET + 1))
    (secrets.parent / "outside").write_text("of another program")
    (secrets / "link").symlink_to("../outside")
    with pytest.raises(SecretNotFound) as refused:
        read_secret(reference.replace("{}", str(secrets)))
    assert str(refused.value).startswith(message.replace("{}", str(secrets)))
    assert "swordfish" not in str(refused.value)


@pytest.mark.parametrize(
    "reference",
    ["file:/etc/backupsched/../shadow", "file:/etc/backupsched", "env:PATH", "file:/etc/backupsched/a\nb"],
)
def test_a_reference_is_refused_when_it_is_saved(reference: str) -> None:
    with pytest.raises(ValueError, match=r"is in no|is not a variable of secrets|must say"):
        check_reference(reference)


def test_a_refused_url_of_a_ping_is_called_one() -> None:
    with pytest.raises(ValidationError, match="must say where the URL is found") as refused:
        validated(PolicyDeclaration, {"ping_url": "https://hc.example/t0ken"})
    assert "password" not in str(refused.value)
