"""Types of remotes and the options of each, as rclone reports them (`rclone config providers`)."""

import json
import re
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from external.processes.programs import find_rclone
from external.processes.runner import program_environment

ANSWER_SECONDS = 30.0
OTHERS = frozenset({"remote", "upstreams"})
"""Options of a remote that is made of other remotes."""
NAMES_WHO_ASKS = re.compile(
    r"url|host|email|name(node|space)|region|compartment|service_principal_name|spn|user(name|_project)?|impersonate|"
    r"account|(user_)?domain|tenant(_domain)?|project_number|team_drive|(?!session).*_id"
)
"""Options that rclone calls sensitive but that prove no identity. Any that a later rclone adds count as secrets."""
RUNS_A_PROGRAM = re.compile(r"ssh|.*command")
OF_THE_WORKER = re.compile(
    r"env_auth|use_msi|use_az|key_use_agent|unix_socket|(config_)?profile|(socks|http)_proxy|use_kerberos|"
    r"kerberos_ccache|.*_file|.*_path"
)
"""Options with which rclone uses files, accounts or ways out of the host that it runs on."""
PLAINTEXT, ALLOWED = "plaintext", "allowed"
"""A setting of the scheduler (`engines/cleartext.py`), and its only value."""
REACHABLE = frozenset({
    "azureblob", "azurefiles", "b2", "box", "cloudinary", "doi", "drime", "drive", "dropbox", "fichier",
    "filefabric", "filelu", "filen", "filescom", "ftp", "gofile", "google cloud storage", "google photos",
    "hidrive", "http", "huaweidrive", "iclouddrive", "imagekit", "internetarchive", "internxt", "jottacloud",
    "koofr", "linkbox", "mailru", "mega", "netstorage", "onedrive", "opendrive", "oracleobjectstorage", "pcloud",
    "pikpak", "pixeldrain", "premiumizeme", "protondrive", "putio", "qingstor", "quatrix", "s3", "seafile", "sftp",
    "shade", "sharefile", "sia", "smb", "sugarsync", "swift", "ulozto", "webdav", "yandex", "zoho",
})  # fmt: skip
"""The types that are used. A type that a later rclone adds is used only after a look at which servers it connects to,
and how.
"""
UNGUARDED = frozenset({"hdfs", "storj", "tardigrade"})
"""Types whose first server names others, to which rclone connects in ways that no gate guards."""
CHOSEN = frozenset({"provider", "vendor"})
"""Options whose value must be one of their examples, though rclone takes other texts, too."""
SET_FROM_HOST_KEYS = frozenset({"known_hosts_file", "pin_host_key", "ask_password", "host_key_algorithms"})


@dataclass(frozen=True)
class Option:
    """An option of a remote. `required_by`: the providers that need it, empty if all do, None if it may be left out."""

    required_by: frozenset[str] | None
    is_secret: bool
    is_password: bool
    """rclone wants it obscured."""
    means: str = ""
    is_usual: bool = False
    """rclone does not call it advanced."""
    choices: tuple[str, ...] = ()
    """The values that it takes, where they are few and known."""


def check_remote(remote: Mapping[str, Any]) -> None:
    """Check the settings of a remote. A missing setting may be a secret. Raises: ValueError."""
    options = options_of(remote)
    for name, value in remote.items():
        if name == "type" or (name == PLAINTEXT and value == ALLOWED):
            continue
        if name == PLAINTEXT:
            raise ValueError(f"{PLAINTEXT} takes {ALLOWED} only")
        if known(name, options, remote).is_secret:
            raise ValueError(
                f'{name} is a secret: name in `secrets` where it is found, such as {{"{name}": "file:/path"}}'
            )
        if RUNS_A_PROGRAM.fullmatch(name):
            raise ValueError(f"{name} would run a program; leave it out")
        if name in SET_FROM_HOST_KEYS:
            raise ValueError(f"{name} is set from host_keys; leave it out")
        if not isinstance(value, str | int) or re.search(r"[\x00-\x1f\x7f]", str(value)):
            raise ValueError(f"{name} must be text, a number, true or false")


def check_complete(remote: Mapping[str, Any], secrets: Collection[str]) -> None:
    """Check the names of the secrets of a remote whose settings are right, and that nothing is missing. Raises:
    ValueError.
    """
    options, provider = options_of(remote), str(remote.get("provider", ""))
    for name in secrets:
        known(name, options, remote)
        if RUNS_A_PROGRAM.fullmatch(name) or OF_THE_WORKER.fullmatch(name) or name in SET_FROM_HOST_KEYS:
            raise ValueError(f"{name} is not a secret")
        if name in remote:
            raise ValueError(f"{name} is in `remote`, too; give it once")
    for name, option in options.items():
        needed = option.required_by is not None and (not option.required_by or provider in option.required_by)
        if needed and name not in remote and name not in secrets:
            where = "secrets" if option.is_secret else "remote"
            raise ValueError(f"{name} is missing: a remote of type {remote['type']} needs it in `{where}`")


def of_the_worker(remote: Mapping[str, Any]) -> list[str]:
    """Settings that let rclone use the worker's files, cloud account or ways out."""
    return sorted(name for name in remote if OF_THE_WORKER.fullmatch(name))


def options_of(remote: Mapping[str, Any]) -> dict[str, Option]:
    """The options of a remote of this type, by name. Raises: ValueError for a type that a repository may not have."""
    kind = remote.get("type")
    if not isinstance(kind, str) or not kind:
        raise ValueError('type is missing, such as {"type": "s3"}: `rclone config providers` lists them all')
    if kind == "local":
        raise ValueError("type local is a directory on this host: add it as a directory, not as a remote")
    if (options := providers().get(kind)) is None:
        raise ValueError(f"rclone has no remote of type {kind!r:.60}{_near(kind, providers())}")
    if kind == "memory" or not OTHERS.isdisjoint(options):
        raise ValueError(f"type {kind} stores nothing itself: name the remote that does")
    if kind in UNGUARDED:
        raise ValueError(
            f"type {kind} is not used: its server sends rclone on to others of any network; name its S3 gateway or a "
            "folder where it is mounted"
        )
    if kind not in REACHABLE:
        raise ValueError(f"type {kind} is not used: it is not known which servers its remote leads to")
    return options


def known(name: str, options: Mapping[str, Option], remote: Mapping[str, Any]) -> Option:
    """Raises: ValueError for an option that does not exist."""
    if (option := options.get(name)) is None:
        raise ValueError(f"a remote of type {remote['type']} has no option {name!r:.60}{_near(name, options)}")
    return option


def providers() -> dict[str, dict[str, Option]]:
    """All types with their options. Raises: ValueError, ProgramMissing."""
    return {name: options for name, (_, options) in _asked().items()}


def titles() -> dict[str, str]:
    """The types that store data themselves, with rclone's titles. Raises: ValueError, ProgramMissing."""
    return {name: title for name, (title, _) in sorted(_asked().items()) if name in REACHABLE}


@cache
def _asked() -> dict[str, tuple[str, dict[str, Option]]]:
    try:
        ended = subprocess.run(
            (find_rclone(), "config", "providers", "--config="),
            env=program_environment({}),
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=True,
        )
        return {each["Name"]: (each["Description"], _options(each["Options"])) for each in json.loads(ended.stdout)}
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        raise ValueError(f"rclone does not list its settings ({type(error).__name__}); is it 1.75 or later?") from None


def _options(rows: list[dict[str, Any]]) -> dict[str, Option]:
    found: dict[str, Option] = {}
    for row in rows:  # some have one of a name for each of several providers
        name, required = row["Name"], None
        if row["Required"]:
            required = frozenset(filter(None, row.get("Provider", "").split(",")))
        if (before := found.get(name)) and before.required_by:
            required = before.required_by | (required or frozenset())
        is_secret = row["IsPassword"] or (row["Sensitive"] and not NAMES_WHO_ASKS.fullmatch(name))
        means = row["Help"].partition("\n")[0].rstrip(".")
        is_usual = not (row["Advanced"] or row["Hide"])
        found[name] = Option(required, is_secret, row["IsPassword"], means, is_usual, _choices(row))
    return found


def _choices(row: Mapping[str, Any]) -> tuple[str, ...]:
    if row["Type"] == "bool":
        return ("true", "false")
    if row.get("Exclusive") or row["Name"] in CHOSEN:
        return tuple(each["Value"] for each in row.get("Examples") or () if each["Value"])
    return ()


def _near(name: str, names: Collection[str]) -> str:
    import difflib  # costs 1 ms of each start of a process, for a message

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else f"; it has {', '.join(sorted(names))}"
