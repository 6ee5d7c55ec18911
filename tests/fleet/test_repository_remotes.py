"""Places of repositories that rclone reaches: what it takes of a remote, and what is refused with a reason."""

import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from fleet.repository_edits import Repositories
from sealing import stored_secrets
from sources.models import Repository
from storage import layout
from storage.places import identity, providers
from storage.places.location import of_directory
from storage.points.store import Store
from tests.engines.peers import PASSWORD

pytestmark = pytest.mark.django_db

FTP = {"type": "ftp", "host": "nas", "user": "x"}
S3 = {"type": "s3", "provider": "Other", "endpoint": "https://s3.example.org", "access_key_id": "me"}
SECRETS = {"secret_access_key": "stored:cloud"}


def problems_of(**fields: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as found:
        Repositories().fill(Repository(), {"name": "x", "location": "bucket/backups"} | fields)
    problems: dict[str, list[str]] = found.value.message_dict
    return problems


class TestWhatRcloneTakes:
    @pytest.mark.parametrize(
        ("fields", "field", "text"),
        [
            ({"remote": {"type": "s4"}}, "remote", "no remote of type 's4'; did you mean s3"),
            ({"remote": S3 | {"endpont": "x"}}, "remote", "no option 'endpont'; did you mean endpoint"),
            ({"remote": S3 | {"secret_access_key": "x"}}, "remote", "secret_access_key is a secret"),
            ({"remote": {"type": "alias", "remote": "/etc"}}, "remote", "type alias stores nothing itself"),
            ({"remote": {"type": "local"}}, "remote", "add it as a directory, not as a remote"),
            ({"remote": {"type": "hdfs", "namenode": "x:8020"}}, "remote", "sends rclone on to others"),
            ({"remote": FTP, "secrets": {"pass": "stored:x"}}, "secrets", "sends its password in clear (FTP without"),
            ({"remote": FTP | {"plaintext": "yes"}}, "remote", "plaintext takes allowed only"),
            ({"remote": {"type": "rest", "url": "http://x", "user": "x"}, "format": "restic"}, "remote", "in clear"),
            ({"remote": {"type": "webdav", "url": "https://x", "bearer_token_command": "id"}}, "remote", "a program"),
            ({"remote": {"type": "sftp", "host": "x", "ssh": "id"}}, "remote", "would run a program"),
            ({"remote": {"type": "sftp", "host": "x"}}, "remote", "must show a known host key"),
            ({"remote": {"type": "webdav", "user": "x"}}, "secrets", "url is missing"),
            ({"remote": S3, "secrets": {"token": "stored:x"}}, "secrets", "has no option 'token'"),
            ({"remote": S3, "secrets": {"secret_access_key": "x"}}, "secrets", "must say where the password is found"),
            ({"remote": S3, "secrets": SECRETS}, "secrets", "there is no stored secret cloud"),
            ({"remote": S3, "location": "../x"}, "location", "must not hold '..'"),
            ({"location": "backups"}, "location", "is not an absolute path"),
            ({"location": "/srv/backups", "key": "stored:x"}, "key", "is that of an encrypted repository"),
        ],
    )
    def test_is_what_rclone_itself_says(self, fields: dict[str, Any], field: str, text: str) -> None:
        assert text in "; ".join(problems_of(**fields)[field])


def test_what_lies_on_one_server_does_not_overlap() -> None:
    Repository.objects.create(name="x", location="bucket/backups", remote=S3, secrets=SECRETS)
    stored_secrets.store("cloud", PASSWORD)
    fields = {"remote": S3 | {"region": "eu"}, "secrets": SECRETS, "location": "bucket"}
    assert "repository x" in problems_of(**fields)["location"][0]
    elsewhere = fields | {"remote": S3 | {"endpoint": "http://127.0.0.1:1"}}
    assert "does not answer" in problems_of(**elsewhere)["remote"][0]


def test_each_type_that_rclone_lists_is_used_or_refused_with_a_reason() -> None:
    """One that a newer rclone adds fails here, until it is decided about."""
    listed = providers.providers()
    refused = {}
    for kind in listed:
        try:
            providers.options_of({"type": kind})
        except ValueError as error:
            refused[kind] = str(error)
    assert set(listed) - set(refused) == providers.REACHABLE == set(providers.titles())
    made_of_others = {"alias", "archive", "cache", "chunker", "combine", "compress", "crypt", "hasher", "union"}
    assert set(refused) == made_of_others | {"local", "memory", "hdfs", "storj", "tardigrade"}
    assert "sends rclone on to others" in refused["tardigrade"]
    assert not any("is not known" in text for text in refused.values())


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"layout": ' * 50_000, '{"layout": [1]}', "\x00", '{"layout":1e999}']
)
def test_a_repository_json_of_another_shape_is_a_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / layout.REPOSITORY).write_text(content)
    with pytest.raises(identity.RepositoryRefused, match=r"cannot be read|has layout version"):
        identity.read(Store(of_directory(tmp_path), threading.Event()))
