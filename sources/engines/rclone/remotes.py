"""A source as an rclone remote: environment variables and a known_hosts file. Pure; the secret stays out of argv.

| kind | address, port | path | options | secret |
|---|---|---|---|---|
| sftp | host, 22 | directory | user | password, or a private key in PEM form |
| s3 | URL of the endpoint | bucket or bucket/prefix | access_key_id, region, provider | secret access key |
| webdav | URL | directory below it | user, vendor | password |
| local | none | absolute path | marker | none |
"""

from collections.abc import Callable

from sources.engines.base import SourceSpec
from sources.storage.host_keys import algorithms_of, pinned_keys

REMOTE = "src"


class SourceIncomplete(ValueError):
    """The source lacks what it takes to reach it. The message says what, and what to do."""


def remote_settings(source: SourceSpec, obscure: Callable[[str], str], known_hosts: str) -> dict[str, str]:
    """rclone's settings of the remote that `source` is, by name, as {"type": "sftp", "host": …}.

    `obscure` turns a password into rclone's form; `known_hosts` is the path of the file of host keys.

    Raises: SourceIncomplete.
    """
    match source.kind:
        case "sftp":
            return _sftp(source, obscure, known_hosts)
        case "s3":
            return _s3(source)
        case "webdav":
            return _webdav(source, obscure)
        case "local":
            # a link is read as a file `NAME.rclonelink` that holds its target; none is followed
            return {"type": "local", "links": "true"}
    raise SourceIncomplete(f"rclone does not copy sources of kind {source.kind!r}")


def remote_environment(settings: dict[str, str]) -> dict[str, str]:
    """The same settings as rclone reads them from its environment."""
    return {f"RCLONE_CONFIG_{REMOTE.upper()}_{name.upper()}": value for name, value in settings.items()}


def remote_path(source: SourceSpec) -> str:
    """The source's directory as an rclone argument. All after the first colon is a path, whatever it holds."""
    return f"{REMOTE}:{source.path}"


def servers_of(source: SourceSpec) -> set[tuple[str, int]]:
    """Host and port of all that rclone may speak HTTP with for `source`; empty: it does not speak HTTP."""
    if source.kind not in ("s3", "webdav"):
        return set()
    from sources.network import contact  # asyncio costs 60 ms, which a folder of this host need not wait for

    host, port = contact.host_and_port(source.address)
    if source.kind == "webdav":
        return {(host, port)}
    # a provider may want the bucket in the name of the host
    return {(host, port), (f"{source.path.strip('/').partition('/')[0]}.{host}", port)}


def known_hosts_lines(source: SourceSpec) -> str:
    """The known_hosts file that accepts only the pinned keys, at this address and port.

    Raises: SourceIncomplete without a host key.
    """
    keys = pinned_keys(source.host_key)
    if not keys:
        port = f"-p {source.port} " if source.port else ""
        raise SourceIncomplete(
            f"source {source.name!r} has no host key, and an SFTP host is not trusted without one: run "
            f"`ssh-keyscan {port}{source.address}` and put a line of it, from the type on (ssh-ed25519 AAAA…), into "
            "its host key"
        )
    host = f"[{source.address.strip('[]')}]:{source.port or 22}"
    return "".join(f"{host} {kind} {key}\n" for kind, key in keys)


def _sftp(source: SourceSpec, obscure: Callable[[str], str], known_hosts: str) -> dict[str, str]:
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
        "known_hosts_file": known_hosts,
        # ask for the keys that are pinned: a host has keys of several types
        "host_key_algorithms": ",".join(algorithms_of(source.host_key)),
        # no commands run on the source; what travels is protected by SSH
        "shell_type": "none",
        # followed, a link may lead out of the source or round in a circle
        "skip_links": "true",
    }
    if source.secret.lstrip().startswith("-----BEGIN"):
        return settings | {"key_pem": source.secret.strip().replace("\r", "").replace("\n", "\\n")}
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
    vendor = str(source.options.get("vendor", "other"))
    settings = {
        "type": "webdav",
        "url": source.address,
        # with "other", rclone trusts no times and takes a changed file of the same size for unchanged; "rclone" is
        # the same dialect with times, and a server that is only read from always tells them
        "vendor": "rclone" if vendor == "other" else vendor,
    }
    if user := source.options.get("user"):
        settings["user"] = str(user)
    if source.secret:
        settings["pass"] = obscure(source.secret)
    return settings


def _option(source: SourceSpec, name: str) -> str:
    value = source.options.get(name)
    if not value:
        raise SourceIncomplete(f"source {source.name!r} lacks the option {name!r}; add it to its options")
    return str(value)
