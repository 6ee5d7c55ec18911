"""A source as an rclone remote: environment variables, which keep the secret out of argv; and the way there.

| kind | address, port | path | options | secret |
|---|---|---|---|---|
| sftp | host, 22 | directory | user | password, or a private key in PEM form |
| s3 | URL of the endpoint | bucket or bucket/prefix | access_key_id, region, provider | secret access key |
| webdav | URL | directory below it | user, vendor | password |
| local | none | absolute path | marker | none |
| rclone | none | path in the remote | rclone's own settings of the remote | `secrets`, by option |
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from engines.addresses import address_of
from engines.base import SourceSpec
from storage.places import servers
from storage.places.host_keys import pinned_keys
from storage.places.location import BUCKETS, Location
from storage.places.remotes import in_one_line, obscure, pinned, settings_of
from storage.places.servers import CONNECT_SECONDS, Server, gate, of_libraries, reached, through

REMOTE = "src"
WITH_ANY_NAMES = ("sftp", "webdav")
"""Types whose names rclone does not encode by itself. In copies from them it does, so that each second run removed the
files of the run before that have a control character in their names, such as the `Icon\\r` of macOS.
"""
NAMES_IT = re.compile(r"host|((api|storage|sas)_)?(url|endpoint)")
USUAL_PORTS = {"ftp": 21, "sftp": 22, "smb": 445}
"""Ports of types that do not speak HTTP."""


@contextmanager
def way_to(
    source: SourceSpec, location: Location, connect_timeout: float = CONNECT_SECONDS, **settings: str
) -> Iterator[dict[str, str]]:
    """The environment of an rclone that reaches a source, and a repository, for as long as the block lasts. Each has a
    separate gate: a source does not lead to its repository's server any more than to other ones. `settings`: other
    settings of the source's remote. Raises: ValueError if the source lacks a setting that this takes, RunEnded if it
    has no address, ProgramMissing, OSError.
    """
    with gate(servers_of(source), connect_timeout) as url, reached(location, None, connect_timeout) as environment:
        remote = servers.at_its_address(_settings(source), lambda host, port: address_of(host, port, connect_timeout))
        if remote["type"] in WITH_ANY_NAMES and not remote.get("vendor", "").startswith("sharepoint"):
            remote = {"encoding": "Slash,Dot"} | remote
        remote |= settings | through(url, remote["type"])
        own = {f"RCLONE_CONFIG_{REMOTE.upper()}_{name.upper()}": value for name, value in remote.items()}
        yield own | of_libraries(url) | environment


def _settings(source: SourceSpec) -> dict[str, str]:
    """The settings of the remote that `source` is, by rclone's names, such as {"type": "sftp", "host": …}."""
    match source.kind:
        case "sftp":
            return _sftp(source)
        case "s3":
            return _s3(source)
        case "webdav":
            return _webdav(source)
        case "local":
            return {"type": "local", "skip_links": "true"}
        case "rclone":
            settings = settings_of({k: v for k, v in source.options.items() if k != "marker"}, source.secrets)
            return settings | ({"vendor": _vendor(settings)} if settings["type"] == "webdav" else {})
    raise ValueError(f"rclone does not copy sources of kind {source.kind!r}")


def remote_path(source: SourceSpec) -> str:
    """The source's directory as an rclone argument. Everything after the first colon is a path."""
    return f"{REMOTE}:{source.path}"


def is_bucket(source: SourceSpec) -> bool:
    """True if it has no folders: a missing one lists like an empty one there."""
    return source.kind == "s3" or (source.kind == "rclone" and source.options.get("type") in BUCKETS)


def times_arguments(source: SourceSpec) -> tuple[str, ...]:
    """The arguments with which rclone lists an object's time: when it was written, which is in the listing of a bucket.
    The time that its writer noted costs a question for each object, and stays if another content is written.
    """
    return ("--use-server-modtime",) if is_bucket(source) else ()


def servers_of(source: SourceSpec) -> set[Server]:
    """All servers to which rclone may connect for `source` through the gate; empty if it does not speak HTTP."""
    if source.kind == "rclone":
        return servers.servers_of(source.options, source.path)
    if option := {"s3": "endpoint", "webdav": "url"}.get(source.kind):
        return servers.servers_of({"type": source.kind, option: source.address}, source.path.strip("/"))
    return set()


def server_of(remote: Mapping[str, Any]) -> tuple[str, int, bool] | None:
    """The host and port that a remote names, and True if TLS is spoken from the beginning; None if it names none."""
    kind = str(remote.get("type"))
    if kind in USUAL_PORTS:
        port = str(remote.get("port") or USUAL_PORTS[kind])
        is_tls = str(remote.get("tls", "")).lower() == "true"
        return (str(remote.get("host", "")), int(port) if port.isdecimal() else 0, is_tls)
    for name, value in remote.items():
        if NAMES_IT.fullmatch(name) and value:
            return _server_at(str(value))
    return None


def _server_at(text: str) -> tuple[str, int, bool]:
    """The host and port of an endpoint. If it is not a whole URL, https is used."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        is_tls = parts.scheme != "http"
        return parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls
    except ValueError:
        return "", 0, True


def _sftp(source: SourceSpec) -> dict[str, str]:
    if not pinned_keys(source.host_key):
        port = f"-p {source.port} " if source.port else ""
        raise ValueError(
            f"source {source.name!r} has no host key, and an SFTP host is not trusted without one: run "
            f"`ssh-keyscan {port}{source.address}` and paste one of its lines, from the type on (ssh-ed25519 "
            "AAAA…), as its host key"
        )
    if not source.secret:
        raise ValueError(
            f"source {source.name!r} has no secret: give it a password or a private key, as "
            "stored:NAME, env:NAME or file:/path"
        )
    host = f"[{source.address}]" if ":" in source.address and source.address[0] != "[" else source.address
    settings = {
        "type": "sftp",
        "host": host,
        "port": str(source.port or 22),
        "user": _option(source, "user"),
        **pinned(source.host_key),
        # if it were followed, a link could lead out of the source or round in a circle
        "skip_links": "true",
    }
    if source.secret.lstrip().startswith("-----BEGIN"):
        return settings | {"key_pem": in_one_line(source.secret)}
    return settings | {"pass": obscure(source.secret)}


def _s3(source: SourceSpec) -> dict[str, str]:
    if not source.secret:
        raise ValueError(f"source {source.name!r} has no secret: give it the secret access key of its bucket")
    provider = "AWS" if ".amazonaws.com" in source.address else "Other"
    settings = {
        "type": "s3",
        "provider": str(source.options.get("provider", provider)),
        "endpoint": source.address,
        "access_key_id": _option(source, "access_key_id"),
        "secret_access_key": source.secret,
    }
    if region := source.options.get("region"):
        settings["region"] = str(region)
    return settings


def _webdav(source: SourceSpec) -> dict[str, str]:
    settings = {"type": "webdav", "url": source.address, "vendor": _vendor(source.options)}
    if user := source.options.get("user"):
        settings["user"] = str(user)
    if source.secret:
        settings["pass"] = obscure(source.secret)
    return settings


def _vendor(settings: Mapping[str, Any]) -> str:
    """The vendor for rclone. With "other", rclone trusts no times and takes a changed file of the same size for
    unchanged; "rclone" is the same dialect with times, and a server that is only read from always reports them.
    """
    vendor = str(settings.get("vendor") or "other")
    return "rclone" if vendor == "other" else vendor


def _option(source: SourceSpec, name: str) -> str:
    value = source.options.get(name)
    if not value:
        raise ValueError(f"source {source.name!r} lacks the option {name!r}; add it to its options")
    return str(value)
