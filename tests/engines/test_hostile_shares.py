"""Hostile shares and buckets: redirects, listings without end, and answers that repeat secrets."""

import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from backups import repository_orders
from engines.at_repositories.probing import IMPATIENT
from engines.base import EngineResult, Verdict
from external.network.gate import PUBLIC, gate_to
from storage.places import remotes
from storage.places.location import Location
from storage.places.servers import METADATA, REDIRECTED, servers_of
from storage.points.store import StorageFailed, Store
from tests.delivery.certificates import make_certificate, served_with
from tests.engines.peers import PASSWORD, USER, back_up, held, local_folder, loopback_address, specification, task_for
from tests.engines.redirecting import FILE, S3, TEXT, Server, server
from tests.engines.webdav_shares import hostile_share
from tests.sources.strangers import talker
from tests.storage.repositories import KEY, encrypted, webdav
from tests.waiting import PATIENCE

FIELDS: dict[str, dict[str, Any]] = {
    "webdav": {"path": "", "options": {"user": USER}},
    "s3": {"path": "photos", "options": {"access_key_id": "accesskey12345"}},
}


def back_up_from(kind: str, share: Server, copy: Path, **fields: Any) -> EngineResult:
    return back_up(specification(kind, share.url, **FIELDS[kind]), copy, **fields)


def test_a_secret_that_a_repository_quotes_is_not_repeated(tmp_path: Path) -> None:
    secret = "s3cret-of-the-bucket"
    answer = f"<Error><Code>Odd</Code><Message>{secret} is not mine</Message></Error>"
    with server(loopback_address()) as bucket:
        bucket.fails = lambda method, path: (400, answer)
        remote = {"type": "s3", "provider": "Other", "endpoint": bucket.url, "access_key_id": "accesskey12345"}
        location = remotes.location_of("vault", remote, {"secret_access_key": secret}, None)
        with pytest.raises(StorageFailed, match=r"the server answered 400 Bad Request \(Odd\)") as raised:
            Store(location, threading.Event()).names("nas-1")
        result = back_up(local_folder(tmp_path), tmp_path, location=location, folder="nas-1")
    assert result.verdict is Verdict.REPOSITORY_FAILED
    assert secret not in f"{raised.value} {result}"


S3_SETTINGS = {"provider": "Other", "access_key_id": "accesskey12345"}


@pytest.mark.parametrize(("kind", "secret", "tries"), [("s3", "secret_access_key", 3), ("webdav", "pass", 10)])
def test_a_bucket_whose_server_is_away_is_not_tried_for_minutes(kind: str, secret: str, tries: int) -> None:
    settings = {"s3": {**S3_SETTINGS, "endpoint": "http://127.0.0.1:9"}, "webdav": {"url": "http://127.0.0.1:9"}}
    location = remotes.location_of("vault", {"type": kind, **settings[kind]}, {secret: "s"}, KEY)
    for here, found in ((location, tries), (replace(location, environment={**location.environment, **IMPATIENT}), 1)):
        lines: list[str] = []
        Store(here, threading.Event()).run("rc", "--loopback", "options/get", on_line=lines.append)
        assert json.loads("".join(lines))["main"]["LowLevelRetries"] == found


def is_listing(method: str, path: str) -> bool:
    return method == "PROPFIND" or "max-keys" in path


def is_file(method: str, path: str) -> bool:
    return method == "GET" and FILE in path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "redirected", "status", "host"),
    [
        ("webdav", is_listing, 307, "own"),
        ("webdav", is_file, 302, "another"),
        ("s3", is_listing, 301, "another"),
        ("s3", is_file, 308, "own"),
    ],
)
def test_no_redirect_leads_to_another_server(
    kind: str, redirected: Callable[[str, str], bool], status: int, host: str, tmp_path: Path
) -> None:
    own = loopback_address()
    another = "127.79" + own[own.index(".", 4) :]
    with server(own) as share, server(own if host == "own" else another) as other:
        share.leads = lambda method, path: (status, other.url + path) if redirected(method, path) else None
        result = back_up_from(kind, share, tmp_path / "copy")
    assert share.asked
    assert other.asked == []
    assert result.verdict is Verdict.SOURCE_FAILED
    assert f"{other.url.removeprefix('http://')}: redirects to another server are not followed" in result.error
    assert held(tmp_path / "copy") == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "status", "host"), [("webdav", 307, "own"), ("webdav", 302, "another"), ("s3", 307, "another")]
)
def test_a_repository_leads_to_no_other_server(kind: str, status: int, host: str, tmp_path: Path) -> None:
    """Neither what lists it, nor a backup from a share that has the same kind."""
    own, remotes_of = loopback_address(), {"webdav": {"vendor": "other", "user": USER}, "s3": S3_SETTINGS}
    another = "127.79" + own[own.index(".", 4) :]
    with server(own) as share, server(own if host == "own" else another) as other, server(loopback_address()) as source:
        share.leads = lambda method, path: (status, other.url + path)
        settings = {"type": kind, "url" if kind == "webdav" else "endpoint": share.url, **remotes_of[kind]}
        secret = {"pass" if kind == "webdav" else "secret_access_key": "s3cret-of-the-bucket"}
        location = remotes.location_of("vault", settings, secret, None)
        location = replace(location, environment={**location.environment, **IMPATIENT})
        refused = f"{other.url.removeprefix('http://')}: {REDIRECTED}"
        with pytest.raises(StorageFailed, match=refused):
            Store(location, threading.Event()).sizes("nas-1")
        result = back_up_from("webdav", source, tmp_path, location=location, folder="nas-1")
    assert share.asked
    assert other.asked == []
    assert result.verdict is Verdict.REPOSITORY_FAILED
    assert refused in result.error


@pytest.mark.slow
def test_a_share_is_copied_to_a_share_and_does_not_lead_into_it(tmp_path: Path) -> None:
    with server(loopback_address()) as source, webdav(tmp_path / "served") as location:
        source.files = {FILE: TEXT, "b.txt": "beta"}
        url = location.environment["RCLONE_CONFIG_BASE_URL"]
        source.leads = lambda method, path: (302, f"{url}/backups/secret") if is_file(method, path) else None
        result = back_up_from("webdav", source, tmp_path, location=encrypted(location), folder="nas-1")
        assert result.verdict is Verdict.WARNINGS, result
        assert f"{url.removeprefix('http://')}: {REDIRECTED}" in " ".join(result.warnings)
        assert Store(encrypted(location), threading.Event()).sizes(f"nas-1/files/{result.snapshot}") == {"b.txt": 4}


def test_a_provider_has_its_public_servers_and_those_that_are_named() -> None:
    aws = {"type": "s3", "provider": "AWS", "region": "eu-central-1"}
    assert servers_of(aws, "vault/x") == {PUBLIC}
    named = {("cloud.example.org", 9000), ("vault.cloud.example.org", 9000)}
    bucket = {"type": "s3", "provider": "Other", "endpoint": "cloud.example.org:9000"}
    assert servers_of(bucket, "vault/x") == named
    assert servers_of({**bucket, "env_auth": True}, "vault/x") == named | {PUBLIC, *METADATA}
    assert servers_of({"type": "sftp", "host": "nas"}, "vault") == set()
    with server("localhost") as private:
        settings = {"RCLONE_CONFIG_BASE_TYPE": "webdav", "RCLONE_CONFIG_BASE_URL": private.url}
        store = Store(Location("base:", "base:", settings, servers=(PUBLIC,)), threading.Event())
        with pytest.raises(StorageFailed, match=REDIRECTED):
            store.names("")
    assert private.asked == []


def test_one_file_that_is_redirected_leaves_the_others_copied(tmp_path: Path) -> None:
    with server(loopback_address()) as share:
        share.files = {FILE: TEXT, "b.txt": "beta"}
        share.leads = lambda method, path: (302, "http://169.254.169.254/latest") if is_file(method, path) else None
        result = back_up_from("webdav", share, tmp_path / "copy")
    assert result.verdict is Verdict.WARNINGS
    assert result.warnings[1].startswith(f"{FILE}: ")
    assert "169.254.169.254:80: redirects to another server are not followed" in result.warnings[1]
    assert "socks" not in result.warnings[1]
    assert held(tmp_path / "copy") == {"b.txt": "beta"}


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_redirect_within_the_server_is_followed(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named as people write it, and with TLS, which passes the gate unread."""
    address, tls = "127.0.0.1", None
    if scheme == "https":
        certificate = make_certificate(tmp_path, address)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        tls = served_with(certificate)
    with server(address, tls) as share:
        if scheme == "http":
            share.url = share.url.replace(address, "LocalHost")
        share.leads = lambda method, path: (302, f"/moved/{FILE}") if path == f"/{FILE}" and method == "GET" else None
        result = back_up_from("webdav", share, tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert held(tmp_path / "copy") == {FILE: TEXT}
    assert [path for method, path, authorization in share.asked if method == "GET" and authorization] == [
        f"/{FILE}",
        f"/moved/{FILE}",
    ]


def test_a_connection_that_the_server_breaks_off_does_not_end_as_if_it_was_whole() -> None:
    with socket.create_server((loopback_address(), 0)) as listening:
        place = listening.getsockname()
        with (
            gate_to([place], PATIENCE) as proxy,
            socket.create_connection((urlsplit(proxy).hostname, urlsplit(proxy).port)) as near,
        ):
            near.sendall(b"\5\1\0" + b"\5\1\0\1" + socket.inet_aton(place[0]) + place[1].to_bytes(2))
            far, _ = listening.accept()
            far.sendall(b"half of")
            heard = b""
            while not heard.endswith(b"half of"):
                heard += near.recv(100)
            far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            far.close()
            with pytest.raises(ConnectionResetError):
                near.recv(1)


def test_a_listing_without_end_is_ended_before_it_fills_the_memory(tmp_path: Path, settings: Any) -> None:
    settings.ENGINE_MEMORY_MIB = 96
    with hostile_share(1, endless=True) as source:
        task = task_for(source, tmp_path / "copy")
        result = repository_orders.back_up(task, on_progress=lambda progress: None, stop=threading.Event())
    assert result.verdict is Verdict.SOURCE_FAILED
    assert "BACKUPSCHED_ENGINE_MEMORY" in result.error


@pytest.mark.slow
def test_a_bucket_that_is_listed_without_end_ends_a_run_of_it_and_one_into_it(tmp_path: Path, settings: Any) -> None:
    settings.ENGINE_MEMORY_MIB = 96
    pages, entry = count(), S3[S3.index("<Contents>") : S3.index("</ListBucketResult>")]

    def page(method: str, path: str) -> tuple[int, str]:
        asked = parse_qs(urlsplit(path).query)
        if "max-keys" not in asked:
            return 404, ""
        number, prefix = next(pages), asked.get("prefix", [""])[0]
        keys = "".join(entry.replace(FILE, f"{prefix}{number}-{each}{'x' * 200}") for each in range(1000))
        goes_on = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{number}</NextContinuationToken>"
        return 200, f'<?xml version="1.0"?><ListBucketResult><Name>photos</Name>{goes_on}{keys}</ListBucketResult>'

    with server(loopback_address()) as bucket:
        bucket.fails = page
        remote = {"type": "s3", **S3_SETTINGS, "endpoint": bucket.url}
        location = remotes.location_of("photos/vault", remote, {"secret_access_key": "s"}, None)
        photos = specification("s3", bucket.url, path="photos/2026", options={"access_key_id": "a"}, secret="s")
        for task, verdict in (
            (task_for(photos, tmp_path / "copy"), Verdict.SOURCE_FAILED),
            (task_for(local_folder(tmp_path), tmp_path, location=location, folder="nas-1"), Verdict.REPOSITORY_FAILED),
        ):
            result = repository_orders.back_up(task, on_progress=lambda progress: None, stop=threading.Event())
            assert (result.verdict, "BACKUPSCHED_ENGINE_MEMORY" in result.error) == (verdict, True), result


@pytest.mark.slow
def test_what_a_share_answers_is_not_repeated_of_a_source_or_of_a_repository(tmp_path: Path) -> None:
    with hostile_share(1, refusal=PASSWORD * 60, words="private: page: 200 OK") as source:
        result = back_up(replace(source, secret=PASSWORD), tmp_path / "copy")
        repository = remotes.location_of("", {"type": "webdav", "url": source.address}, {}, None)
        with pytest.raises(StorageFailed) as failed:
            Store(repository, threading.Event()).fetch("holiday.iso", tmp_path / "fetched")
    assert result.verdict is Verdict.SOURCE_FAILED
    for text in (result.error, str(failed.value)):
        assert "the server answered 500 Internal Server Error" in text
        assert not any(part in text for part in (*PASSWORD.split("-"), "private"))


BANNERS = (b"SSH-2.0-Private_9.6\r\n", b'220 private "mail\r\n', b"HTTP/1.1 200 OK\r\nprivate\r\n\r\n")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "banner"), [*(("webdav", each) for each in BANNERS), ("s3", BANNERS[1])])
def test_what_another_service_says_at_the_port_is_not_repeated(kind: str, banner: bytes, tmp_path: Path) -> None:
    with talker(banner, hang_up=True) as (address, port):
        result = back_up(specification(kind, f"http://{address}:{port}", **FIELDS[kind]), tmp_path / "copy")
    assert result.verdict is Verdict.SOURCE_FAILED
    assert "private" not in result.error.lower()
