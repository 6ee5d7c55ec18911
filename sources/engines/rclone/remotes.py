"""A source as an rclone remote: environment variables. Pure; the secret stays out of argv.

| kind | address, port | path | options | secret |
|---|---|---|---|---|
| sftp | host, 22 | directory | user | password, or a private key in PEM form |
| s3 | URL of the endpoint | bucket or bucket/prefix | access_key_id, region, provider | secret access key |
| webdav | URL | directory below it | user, vendor | password |
| local | none | absolute path | marker | none |
| rclone | none | path in the remote | rclone's own settings of the remote | `secrets`, by option |
"""

from collections.abc import Callable, Mapping
from typing import Any

from sources.domain.not_kept import BUCKETS
from sources.engines.base import SourceSpec
from sources.storage import servers
from sources.storage.host_keys import pinned_keys
from sources.storage.remotes import in_one_line, pinned, settings_of
from sources.storage.servers import Server

REMOTE = "src"
WITH_ANY_NAMES = ("sftp", "webdav")
"""Types whose names rclone does not encode by itself. In their copies it does, so it removed at each second run what it
had copied at the run before: a file with a control character in its name, as the `Icon\\r` of macOS."""


class SourceIncomplete(ValueError):
    """The source lacks what it takes to reach it. The message says what, and what to do."""


def remote_settings(source: SourceSpec, obscure: Callable[[str], str]) -> dict[str, str]:
    """rclone's settings of the remote that `source` is, by name, as {"type": "sftp", "host": …}.

    `obscure` turns a password into rclone's form.

    Raises: SourceIncomplete.
    """
    settings = _settings(source, obscure)
    if settings["type"] in WITH_ANY_NAMES and not settings.get("vendor", "").startswith("sharepoint"):
        return {"encoding": "Slash,Dot"} | settings
    return settings


def _settings(source: SourceSpec, obscure: Callable[[str], str]) -> dict[str, str]:
    match source.kind:
        case "sftp":
            return _sftp(source, obscure)
        case "s3":
            return _s3(source)
        case "webdav":
            return _webdav(source, obscure)
        case "local":
            # a link is read as a file `NAME.rclonelink` that holds its target; none is followed
            return {"type": "local", "links": "true"}
        case "rclone":
            settings = settings_of(source.options, source.secrets, obscure)
            return settings | ({"vendor": _vendor(settings)} if settings["type"] == "webdav" else {})
    raise SourceIncomplete(f"rclone does not copy sources of kind {source.kind!r}")


def remote_environment(settings: dict[str, str]) -> dict[str, str]:
    """The same settings as rclone reads them from its environment."""
    return {f"RCLONE_CONFIG_{REMOTE.upper()}_{name.upper()}": value for name, value in settings.items()}


def remote_path(source: SourceSpec) -> str:
    """The source's directory as an rclone argument. All after the first colon is a path, whatever it holds."""
    return f"{REMOTE}:{source.path}"


def is_bucket(source: SourceSpec) -> bool:
    """Whether it knows no folders: there one that is missing lists like one that is empty."""
    return source.kind == "s3" or (source.kind == "rclone" and source.options.get("type") in BUCKETS)


def servers_of(source: SourceSpec) -> set[Server]:
    """All that rclone may be connected with for `source` through the gate; empty: it does not speak HTTP."""
    if source.kind not in ("s3", "webdav", "rclone"):
        return set()
    from sources.network import contact  # asyncio costs 60 ms, which a folder of this host need not wait for

    if source.kind == "rclone":
        return servers.servers_of(source.options, source.path)

    host, port = contact.host_and_port(source.address)
    if source.kind == "webdav":
        return {(host, port)}
    # a provider may want the bucket in the name of the host
    return {(host, port), (f"{source.path.strip('/').partition('/')[0]}.{host}", port)}


def _sftp(source: SourceSpec, obscure: Callable[[str], str]) -> dict[str, str]:
    if not pinned_keys(source.host_key):
        port = f"-p {source.port} " if source.port else ""
        raise SourceIncomplete(
            f"source {source.name!r} has no host key, and an SFTP host is not trusted without one: run "
            f"`ssh-keyscan {port}{source.address}` and put a line of it, from the type on (ssh-ed25519 AAAA…), into "
            "its host key"
        )
    if not source.secret:
        raise SourceIncomplete(
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
        # followed, a link may lead out of the source or round in a circle
        "skip_links": "true",
    }
    if source.secret.lstrip().startswith("-----BEGIN"):
        return settings | {"key_pem": in_one_line(source.secret)}
    return settings | {"pass": obscure(source.secret)}


def _s3(source: SourceSpec) -> dict[str, str]:
    if not source.secret:
        raise SourceIncomplete(f"source {source.name!r} has no secret: give it the secret access key of its bucket")
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


def _webdav(source: SourceSpec, obscure: Callable[[str], str]) -> dict[str, str]:
    settings = {"type": "webdav", "url": source.address, "vendor": _vendor(source.options)}
    if user := source.options.get("user"):
        settings["user"] = str(user)
    if source.secret:
        settings["pass"] = obscure(source.secret)
    return settings


def _vendor(settings: Mapping[str, Any]) -> str:
    """With "other", rclone trusts no times and takes a changed file of the same size for unchanged; "rclone" is the
    same dialect with times, and a server that is only read from always tells them."""
    vendor = str(settings.get("vendor") or "other")
    return "rclone" if vendor == "other" else vendor


def _option(source: SourceSpec, name: str) -> str:
    value = source.options.get(name)
    if not value:
        raise SourceIncomplete(f"source {source.name!r} lacks the option {name!r}; add it to its options")
    return str(value)
