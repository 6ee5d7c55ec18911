"""Valid sources, policies and repositories."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from declarations.problems import validated
from fleet.repository_edits import Repositories
from sources.declarations.policies import PolicyDeclaration
from sources.declarations.resources import SourceDeclaration
from sources.models.source import SourceKind

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDi05lLkTafyNw2eJg4nE2VQpKOm0H9cDDMvixIkCD/S"

GOOD: dict[str, dict[str, Any]] = {
    "sftp": {"address": "laptop.example", "path": "/home", "options": {"user": "backup"},
             "secret": "env:BACKUP_SECRET_LAPTOP", "host_key": ED25519},
    "s3": {"address": "https://s3.example:9000", "path": "photos/2026", "options": {"access_key_id": "KEY"},
           "secret": "file:/etc/backupsched/secret"},
    "webdav": {"address": "https://cloud.example/dav", "options": {"user": "anna", "vendor": "nextcloud"}},
    "local": {"path": "/srv/files", "options": {"marker": ".volume"}},
    "rclone": {"options": {"type": "smb", "host": "nas", "user": "ann"}, "secrets": {"pass": "stored:nas"}},
    "mariadb": {"address": "/run/mysqld/mysqld.sock", "path": "shop", "options": {"user": "backup"}},
    "sqlite": {"path": "/srv/shop/shop.sqlite3"},
    "imap": {"address": "imap.example", "options": {"user": "ann@example", "tls": "starttls"}, "secret": "stored:mail"},
    "postgresql": {"address": "/run/postgresql", "path": "shop", "options": {"user": "backup"}, "port": 5433},
}  # fmt: skip


def source(kind: str, **changes: Any) -> SourceDeclaration:
    return validated(SourceDeclaration, {"name": "it", "kind": kind, **GOOD[kind], **changes})


def problems(kind: str, **changes: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as caught:
        source(kind, **changes)
    return caught.value.message_dict


def test_every_kind_of_source_has_a_good_example() -> None:
    assert set(GOOD) == set(SourceKind.values)


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_source_passes(kind: str) -> None:
    source(kind)


@pytest.mark.parametrize(
    ("kind", "field", "value", "message"),
    [
        ("sftp", "address", "", "is missing"),
        ("sftp", "address", "-oProxyCommand=touch /tmp/x", "begins with '-'"),
        ("sftp", "address", "host name", "neither a host name nor an IP address"),
        ("sftp", "address", "a..b", "neither a host name nor an IP address"),
        ("sftp", "address", "user@host", "neither a host name nor an IP address"),
        ("sftp", "address", "h" * 254, "neither a host name nor an IP address"),
        ("sftp", "port", 0, "greater than or equal to 1"),
        ("sftp", "port", 65536, "less than or equal to 65535"),
        ("sftp", "path", "", "is missing"),
        ("sftp", "path", "/home/../etc", "must not hold '..'"),
        ("sftp", "path", "/home\n", "control character"),
        ("sftp", "options", {}, "user is missing"),
        ("sftp", "options", {"user": "a", "identity": "b"}, "has no option 'identity'; it takes user"),
        ("sftp", "options", {"user": "-l"}, "does not begin with '-'"),
        ("sftp", "options", {"user": 5}, "must be text"),
        ("sftp", "options", [], "must be an object"),
        ("sftp", "secret", "", "is missing"),
        ("sftp", "secret", "env:", "must say where"),
        ("sftp", "secret", "file:relative", "must say where"),
        ("sftp", "host_key", "", "ssh-keyscan"),
        ("sftp", "host_key", f"laptop.example {ED25519}", "leave out the address"),
        ("sftp", "host_key", ED25519[:-8], "cut off or altered"),
        ("sftp", "host_key", ED25519.replace("ssh-ed25519", "ssh-rsa"), "cut off or altered"),
        ("sftp", "mac_address", "02:00:00:aa:bb", "is not a MAC address"),
        ("sftp", "wake_allowed", True, "is missing"),
        ("sftp", "wake_address", "-x", "begins with '-'"),
        ("sftp", "wake_address", "198.51.100.255", "BACKUPSCHED_WAKE_NETWORKS"),
        ("sftp", "wake_address", "2001:db8:7::1", "BACKUPSCHED_WAKE_NETWORKS"),
        ("sftp", "wake_port", 70_000, "less than or equal to 65535"),
        ("s3", "address", "s3.example", "is not a URL"),
        ("s3", "address", "https://", "is not a URL"),
        ("s3", "address", "https://host:port", "is not a URL"),
        ("s3", "address", "https://[::1", "is not a URL"),
        ("s3", "address", "https://key:secret@s3.example", "must not hold a user or password"),
        ("s3", "address", "https://-x.example", "begins with '-'"),
        ("s3", "port", 9000, "write it into the URL"),
        ("s3", "path", "", "a bucket"),
        ("s3", "host_key", ED25519, "leave it empty"),
        ("mariadb", "options", {"user": "x", "sslmode": "prefer"}, "it takes disable, require, verify-full"),
        ("mariadb", "path", "--all-databases", "is not the name of a database"),
        ("sqlite", "path", "shop.sqlite3", "is not an absolute path"),
        ("sqlite", "options", {"user": "x"}, "has no option 'user'; it takes none"),
        ("local", "address", "host", "has no address"),
        ("local", "port", 22, "has no separate port"),
        ("local", "path", "files", "is not an absolute path"),
        ("local", "options", {"marker": "../../etc/passwd"}, "must be a path below"),
        ("local", "options", {"marker": "/etc/passwd"}, "must be a path below"),
        ("rclone", "options", {"type": "smb", "host": "nas", "user": "ann", "marker": "../x"}, "must be a path below"),
        ("postgresql", "address", "", "is missing"),
        ("postgresql", "path", "dbname=shop host=evil", "is not the name of a database"),
        ("postgresql", "path", "postgresql://evil/shop", "is not the name of a database"),
        ("rclone", "options", {"type": "alias", "remote": "/etc"}, "type alias stores nothing itself"),
        ("rclone", "options", {"type": "local"}, "add it as a directory"),
        ("rclone", "options", {"type": "storj"}, "sends rclone on to others"),
        ("rclone", "options", {"type": "smb", "hots": "nas"}, "has no option 'hots'; did you mean host"),
        ("rclone", "options", {"type": "smb", "pass": "x"}, "pass is a secret"),
        ("rclone", "options", {"type": "ftp", "host": "nas", "port": "99999"}, "port is '99999', and must be a whole"),
        ("rclone", "options", {"type": "sftp", "host": "nas", "ssh": "sh -c"}, "ssh would run a program"),
        ("rclone", "secrets", {"pass": "x"}, "never write the password itself"),
        ("rclone", "secret", "stored:x", "set `secrets`"),
        ("sftp", "secrets", {"pass": "stored:x"}, "its password is its secret"),
        ("imap", "secret", "", "is missing"),
        ("imap", "options", {"user": "ann", "tls": "maybe"}, "it takes implicit, starttls, none"),
        ("imap", "options", {"user": "ann", "sslrootcert": "ca.pem"}, "the absolute path of a file"),
        ("postgresql", "path", "-Fc", "is not the name of a database"),
        ("postgresql", "options", {"user": "x", "auth": "password"}, "auth"),
        ("postgresql", "options", {"user": "x", "sslrootcert": "ca.pem"}, "the absolute path of a file"),
        ("webdav", "options", {"plain_http": "yes"}, "plain_http"),
    ],
)
def test_a_bad_field_is_named(kind: str, field: str, value: object, message: str) -> None:
    named = "mac_address" if field == "wake_allowed" else field
    found = problems(kind, **{field: value})
    assert list(found) == [named]
    assert message in found[named][0]


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7", "nas", "nas_1.local", "a.b.example."])
def test_host_names_and_addresses_of_both_families_pass(address: str) -> None:
    source("sftp", address=address)


def test_all_wrong_fields_are_told_at_once_and_a_password_in_place_of_a_reference_is_never_repeated() -> None:
    found = problems("sftp", port=0, path="", mac_address="x", secret="correct horse battery staple")
    assert set(found) == {"port", "path", "mac_address", "secret"}
    assert "horse" not in str(found)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("window", [{"start": "01:00", "end": "02:00"}, {"start": "25:00", "end": "02:00"}], "range 2, start: '25:00'"),
        ("engine_options", [], "must be an object"),
        ("engine_options", {"transfer": 4}, "unknown option 'transfer'"),
        ("engine_options", {"transfers": 0}, "1 to 64"),
        ("max_running_for", 1e12, "less than or equal to 1000000000"),
        ("wake_wait", float("inf"), "finite"),
    ],
)
def test_a_bad_field_of_a_policy_is_named(field: str, value: object, message: str) -> None:
    good = {"name": "it", "cron": "0 9 * * *", "repository": "vault", "engine_options": {"transfers": 4}}
    validated(PolicyDeclaration, good | {"window": [{"days": "mon-fri", "start": "22:00", "end": "06:00"}]})
    with pytest.raises(ValidationError, match=message) as caught:
        validated(PolicyDeclaration, good | {field: value})
    assert list(caught.value.message_dict) == [field]


def check_location(path: str) -> None:
    service = Repositories()
    service.fill(service.new(), {"name": "vault", "location": path})


def test_a_directory_and_one_that_can_be_made_are_good_repositories(tmp_path: Path) -> None:
    check_location(str(tmp_path))
    check_location(str(tmp_path / "not" / "yet"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("backups", "is not an absolute path"),
        ("{}/file", "is not a directory"),
        ("{}/file/below", "is not a directory"),
        ("{}/broken", "is not a directory"),
        ("/proc/backups", "is not writable"),
    ],
)
def test_a_repository_that_cannot_be_written_is_refused(location: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValidationError, match=message) as caught:
        check_location(location.format(tmp_path))
    assert list(caught.value.message_dict) == ["location"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_no_repository(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ValidationError, match="is not writable"):
        check_location(str(tmp_path))


@pytest.mark.parametrize(
    ("address", "options", "is_refused"),
    [
        ("http://cloud.example/dav", {}, True),
        ("http://cloud.example/dav", {"plain_http": "allowed"}, False),
        ("http://127.0.0.7:8080/dav", {}, False),
        ("https://cloud.example/dav", {}, False),
    ],
)
def test_a_password_goes_over_plain_http_only_where_that_is_accepted(
    address: str, options: dict[str, Any], is_refused: bool
) -> None:
    changes = {"address": address, "secret": "env:BACKUP_SECRET_SHARE", "options": options}
    if is_refused:
        assert "sends its password in clear" in problems("webdav", **changes)["secret"][0]
    else:
        source("webdav", **changes)
