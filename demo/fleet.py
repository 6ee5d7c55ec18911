"""The demo fleet as a fleet file."""

from pathlib import Path
from typing import Any

from demo import shop
from demo.hosts import LARGE, Host

POLICY, DATABASE_POLICY = "demo-daily", "demo-nightly-dump"
ENCRYPTED_POLICY, LARGE_POLICY = "demo-encrypted", "demo-large"
RETRY, REPOSITORY, ENCRYPTED = "demo-fibonacci", "demo-repository", "demo-encrypted"
ENCRYPTED_SOURCE = "demo-share"

WAITS = {
    "connect_timeout": 2,
    "recheck_after": 20,
    "vanish_grace": 3,
    "wake_allowed": True,
    "wake_every": 15,
    "wake_wait": 2,
}
"""Seconds, not minutes: a demo is watched. Who checks in is not left waiting for its re-check."""


def describe(hosts: list[Host], database: shop.Place, database_secret: Path, repository: Path) -> dict[str, Any]:
    """The fleet file (docs/fleet-files.md has the format)."""
    is_large = any(host.name == LARGE for host in hosts)
    return {
        "repositories": [
            {"name": REPOSITORY, "location": str(repository)},
            {"name": ENCRYPTED, "location": str(repository.with_name("encrypted")), "encrypted": True},
        ],
        "retry_policies": [{"name": RETRY, "algorithm": "fibonacci", "parameters": {"unit": 2}, "max_delay": 60}],
        "policies": [
            *(
                {
                    "name": name,
                    "cron": "0 9 * * *",
                    "zone": "Europe/Berlin",
                    "repository": where,
                    "retry_policy": RETRY,
                    # a brake, so that there is something to watch
                    "engine_options": {"bwlimit": rate},
                    "keep": keep,
                    **WAITS,
                }
                for name, where, rate, keep in (
                    (POLICY, REPOSITORY, "2M", {"last": 7, "daily": 14}),
                    (ENCRYPTED_POLICY, ENCRYPTED, "2M", {"last": 7, "daily": 14}),
                    *([(LARGE_POLICY, REPOSITORY, "600K", {"last": 2})] if is_large else []),
                )
            ),
            {
                "name": DATABASE_POLICY,
                "cron": "0 3 * * *",
                "zone": "Europe/Berlin",
                "repository": REPOSITORY,
                "retry_policy": RETRY,
                **WAITS,
            },
        ],
        "sources": [*map(_source, hosts), _database_source(database, database_secret)],
    }


def _source(host: Host) -> dict[str, Any]:
    source = {
        "name": host.name,
        "kind": host.kind,
        "address": host.address,
        "port": host.port,
        "path": host.path,
        "options": host.options,
        "secret": "" if host.kind == "local" else f"file:{host.secret_file}",
        "host_key": host.host_key,
        "mac_address": host.mac_address,
        "wake_address": host.address if host.mac_address else "",
        "wake_port": host.wake_port,
        "policies": [{ENCRYPTED_SOURCE: ENCRYPTED_POLICY, LARGE: LARGE_POLICY}.get(host.name, POLICY)],
    }
    return {key: value for key, value in source.items() if value not in ("", None, {})}


def _database_source(database: shop.Place, secret: Path) -> dict[str, Any]:
    return {
        "name": "demo-shop-database",
        "kind": "postgresql",
        "address": database.host,
        "port": database.port,
        "path": shop.NAME,
        "options": {"user": database.user},
        "secret": f"file:{secret}",
        "policies": [DATABASE_POLICY],
    }
