"""A repository as rclone remotes: `base`, and `crypt` above it when it is encrypted. Pure but for `obscure`.

rclone reads them from its environment, never from argv or a file.
"""

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sources.processes.programs import find_rclone
from sources.processes.runner import program_environment
from sources.storage import layout, providers
from sources.storage.host_keys import algorithms_of, pinned_keys
from sources.storage.location import Location, joined

OBSCURE_SECONDS = 30.0


def location_of(
    path: str,
    remote: Mapping[str, Any],
    secrets: Mapping[str, str],
    key: str | None,
    obscure: Callable[[str], str],
    *,
    sees_changes: bool = True,
) -> Location:
    """A repository at `path`, of this host or in `remote` (rclone's settings; empty: this host).

    `secrets`: option → the secret itself; `key`: that of an encrypted one. Raises: ValueError.
    """
    outside = f"base:{path}" if remote else path
    environment = _environment("base", _settings(remote, secrets, obscure)) if remote else {}
    if key is not None:
        below = joined(outside, layout.ENCRYPTED)
        environment |= _environment("crypt", {"type": "crypt", "remote": below, "password": obscure(key)})
    root = outside if key is None else "crypt:"
    directory = None if remote else Path(path)
    return Location(root, outside, environment, directory, sees_changes)


def obscure(password: str) -> str:
    """A password in rclone's form. It goes in through a pipe, never argv. Raises: ValueError, ProgramMissing."""
    if re.search(r"[\n\0]", password) or not password:
        raise ValueError("the secret is empty or holds a line break, which no password may")
    try:
        ended = subprocess.run(
            (find_rclone(), "obscure", "-", "--config="),
            input=password.encode(),
            env=program_environment({}),
            capture_output=True,
            timeout=OBSCURE_SECONDS,
            check=True,
        )
    except subprocess.SubprocessError:
        raise ValueError("rclone does not take the secret as a password") from None
    return ended.stdout.decode().strip()


def _settings(remote: Mapping[str, Any], secrets: Mapping[str, str], obscure: Callable[[str], str]) -> dict[str, str]:
    options = providers.options_of(remote)
    found = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in remote.items()}
    for name, secret in secrets.items():
        is_password = providers.known(name, options, remote).is_password
        found[name] = obscure(secret) if is_password else secret
    if pem := found.get("key_pem"):
        found["key_pem"] = pem.strip().replace("\r", "").replace("\n", "\\n")
    if remote["type"] == "sftp":
        lines = found.get("host_keys", "").replace(",", "\n")
        if not pinned_keys(lines):
            raise ValueError("host_keys is missing: an SFTP host is not trusted without one (ssh-keyscan)")
        found["host_keys"] = ",".join(f"{kind} {key}" for kind, key in pinned_keys(lines))
        found["host_key_algorithms"] = ",".join(algorithms_of(lines))
        found.setdefault("shell_type", "none")  # no commands run there
    return found


def _environment(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {f"RCLONE_CONFIG_{name.upper()}_{option.upper()}": value for option, value in settings.items()}
