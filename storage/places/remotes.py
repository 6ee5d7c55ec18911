"""A repository as rclone remotes: `base`, and `crypt` above it when it is encrypted. Pure, except that `obscure` draws
random bytes.

rclone reads them from its environment, never from argv or a file.
"""

import os
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from storage import layout
from storage.places import providers
from storage.places.host_keys import algorithms_of, pinned_keys
from storage.places.location import RCLONE, REST, RESTIC, Location, joined
from storage.places.servers import servers_of

KEY_OF_RCLONE = bytes.fromhex("9c935b48730a554d6bfd7c63c886a92bd390198eb8128afbf4de162b8b95f638")
"""The key of every rclone, published with it: it only hides passwords from a glance."""
PORTS = {"http": 80, "https": 443}
REST_SERVER = "rest"
"""The type of a remote that is a REST server of restic, which rclone does not have."""


def location_of(
    path: str,
    remote: Mapping[str, Any],
    secrets: Mapping[str, str],
    key: str | None,
    *,
    format: str = RCLONE,
    cache: str = "",
) -> Location:
    """A repository at `path`, on this host or in `remote` (rclone's settings; on this host if empty).

    `secrets`: option → the secret itself; `key`: the key of an encrypted repository; `cache`: a folder for restic's
    cache. Raises: ValueError.
    """
    if format == RESTIC:
        return _of_restic(path, remote, secrets, key, cache)
    outside = f"base:{path}" if remote else path
    settings = settings_of(remote, secrets) if remote else {}
    hidden = [*secrets.values(), *(settings[name] for name in secrets if name in settings)]
    environment = _environment("base", settings)
    if key is not None:
        below, password = joined(outside, layout.ENCRYPTED), obscure(key)
        environment |= _environment("crypt", {"type": "crypt", "remote": below, "password": password})
        hidden += [key, password]
    root = outside if key is None else "crypt:"
    directory = None if remote else Path(path)
    servers = servers_of(remote, path) if remote else ()
    return Location(root, outside, environment, directory, tuple(hidden), tuple(servers))


def beside(location: Location) -> Location:
    """The same place under other names, for a program that reaches another one as well."""

    def renamed(text: str) -> str:
        return re.sub(r"^(rclone:)?(base|crypt):", r"\1copy\2:", text)

    environment = {
        re.sub(r"^RCLONE_CONFIG_(BASE|CRYPT)_", r"RCLONE_CONFIG_COPY\1_", name): value
        for name, value in location.environment.items()
    }
    if below := environment.get("RCLONE_CONFIG_COPYCRYPT_REMOTE"):
        environment["RCLONE_CONFIG_COPYCRYPT_REMOTE"] = renamed(below)
    if location.is_restic:
        environment["RESTIC_FROM_REPOSITORY"] = renamed(environment.pop("RESTIC_REPOSITORY"))
        environment["RESTIC_FROM_PASSWORD"] = environment.pop("RESTIC_PASSWORD")
    return replace(location, root=renamed(location.root), outside=renamed(location.outside), environment=environment)


def in_environment(path: str, given: Mapping[str, str], key: str | None, format: str) -> Location:
    """The location of a repository in a remote whose settings are in the environment, at a path such as
    `base:bucket/backups`.
    """
    found = location_of(path, {}, {}, None if format == RESTIC else key)
    if format == RESTIC:
        found = _with_restic(found, f"rclone:{joined(path, RESTIC)}", key, "")
    return replace(found, environment={**given, **found.environment}, directory=None)


def _of_restic(
    path: str,
    remote: Mapping[str, Any],
    secrets: Mapping[str, str],
    key: str | None,
    cache: str,
) -> Location:
    """The location of a restic repository, which contains the folder of restic's data, its identity and the recovery
    instructions.
    """
    if remote.get("type") == REST_SERVER:
        url = urlsplit(str(remote["url"]))
        user, password = str(remote.get("user", "")), secrets.get("password", "")
        account = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
        below = f"{url.netloc}{url.path.rstrip('/')}/{path.strip('/')}/"
        place = f"{REST}{url.scheme}://{below}"
        found = Location(place, place, servers=((url.hostname or "", url.port or PORTS[url.scheme]),))
        hidden = tuple(each for each in (password, quote(password, safe="")) if each)
        return _with_restic(replace(found, secrets=hidden), f"{REST}{url.scheme}://{account}{below}", key, cache)
    found = location_of(path, remote, secrets, None)
    inner = joined(found.outside, RESTIC)
    return _with_restic(found, f"rclone:{inner}" if remote else inner, key, cache)


def _with_restic(found: Location, repository: str, key: str | None, cache: str) -> Location:
    if not key:
        raise ValueError("a restic repository has a key, and none is given")
    environment = {
        **found.environment,
        "RESTIC_REPOSITORY": repository,
        "RESTIC_PASSWORD": key,
        "RESTIC_PROGRESS_FPS": "2",
        **({"RESTIC_CACHE_DIR": cache} if cache else {}),
    }
    return replace(found, environment=environment, secrets=(*found.secrets, key), format=RESTIC)


def obscure(password: str) -> str:
    """A password as `rclone obscure` writes it. This form keeps nothing secret; running rclone for each password of a
    backup would take a tenth of a second. Raises: ValueError.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if re.search(r"[\n\0]", password) or not password:
        raise ValueError("the secret is empty or contains a line break, which a password must not")
    start = os.urandom(16)
    hidden = start + Cipher(algorithms.AES(KEY_OF_RCLONE), modes.CTR(start)).encryptor().update(password.encode())
    return urlsafe_b64encode(hidden).decode().rstrip("=")


def settings_of(remote: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, str]:
    """rclone's settings of a remote, as texts, with its secrets. Raises: ValueError."""
    options = providers.options_of(remote)
    rclones = {name: value for name, value in remote.items() if name != providers.PLAINTEXT}
    found = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in rclones.items()}
    for name, secret in secrets.items():
        is_password = providers.known(name, options, remote).is_password
        found[name] = obscure(secret) if is_password else secret
    if pem := found.get("key_pem"):
        found["key_pem"] = in_one_line(pem)
    if remote["type"] == "sftp":
        lines = found.get("host_keys", "").replace(",", "\n")
        if not pinned_keys(lines):
            raise ValueError("host_keys is missing: an SFTP host is not trusted without one (ssh-keyscan)")
        found = pinned(lines) | found | {"host_keys": pinned(lines)["host_keys"]}
    return found


def pinned(host_keys: str) -> dict[str, str]:
    """rclone's settings for an SFTP host that has one of these keys, one per line."""
    return {
        "host_keys": ",".join(f"{kind} {key}" for kind, key in pinned_keys(host_keys)),
        # ask for the keys that are pinned: a host has keys of several types
        "host_key_algorithms": ",".join(algorithms_of(host_keys)),
        # no commands run there; the data is protected by SSH
        "shell_type": "none",
    }


def in_one_line(pem: str) -> str:
    """A private key in the form that rclone takes."""
    return pem.strip().replace("\r", "").replace("\n", "\\n")


def _environment(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {f"RCLONE_CONFIG_{name.upper()}_{option.upper()}": value for option, value in settings.items()}
