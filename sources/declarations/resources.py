"""Rules for the values of a repository, a source and a restore, as far as no table is needed for them."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationInfo
from pydantic import field_validator as checks

from declarations.types import (
    PRINTABLE,
    STORABLE,
    STRICT,
    Choice,
    JsonObject,
    Port,
    Reference,
    Title,
)
from engines import cleartext
from engines.kinds import RULES
from sources.declarations import validation
from sources.models import Format, To
from sources.models.source import SourceKind

MOST_PATHS = 1000
"""The most paths of a restore: for more, name a folder."""

Secrets = Annotated[dict[str, Annotated[str, Field(max_length=500), STORABLE]], Field(max_length=20)]
KindOfSource = Annotated[SourceKind, Choice()]


class RepositoryDeclaration(BaseModel):
    """A place for backups: a directory, or a folder of any remote that rclone has, with its files as they are or
    encrypted. A folder that is missing there is made; writing, reading and deleting are tried before it is saved.
    """

    model_config = STRICT

    name: Title
    format: Annotated[Format, Choice()] = Field(
        Format.RCLONE,
        description="rclone: files under their own names, or rclone's encryption, and nothing else to install. "
        "restic, always encrypted, is for large files that change in part (virtual machines, mail "
        "files, dumps) and for equal data in many sources: it stores only the changed part, and "
        "equal data once. A source that is not a folder on this host is copied to this host's disk "
        "first, which takes the space of one copy. It cannot be changed",
    )
    remote: JsonObject = Field(
        default_factory=dict,
        description='Settings for rclone, such as {"type": "s3", "provider": "Other", "endpoint": …}; `rclone '
        "config providers` lists them. A directory on this host if empty",
    )
    location: Annotated[str, Field(min_length=1, max_length=500), STORABLE] = Field(
        description=(
            "Absolute path of a directory, such as /srv/backups; for a remote the path there, such as bucket/backups"
        )
    )
    secrets: Secrets = Field(
        default_factory=dict,
        description="Where the secrets of the remote are found, never the secrets themselves, such as "
        '{"secret_access_key": "file:/path"}. Setting them needs a separate permission; without '
        "it, a change of remote or location clears them",
    )
    encrypted: bool = Field(
        False,
        description="Encrypt names and contents before they leave this host; restic always does. It cannot be changed",
    )
    key: Annotated[str, Field(max_length=500), STORABLE] = Field(
        "", description="Where the key of an encrypted repository is found. A new one is made, and shown once, if empty"
    )

    @checks("remote", "location", "secrets", "key")
    @classmethod
    def _suits(cls, value: Any, info: ValidationInfo) -> Any:
        if info.field_name == "remote" or "remote" in info.data:  # which is right, then
            getattr(validation, f"check_repository_{info.field_name}")(value, info.data)
        return value


class RepositoryEdit(RepositoryDeclaration):
    """A repository as it is made or changed."""

    force: bool = Field(
        False,
        description="Accept a place with other files in it, or one that lacks the newest point of some "
        "sources, which are doubtful from then on",
    )


class SourceDeclaration(BaseModel):
    """A thing to protect: a laptop, server, share, bucket, folder or database. Its kind decides which fields it
    needs."""

    model_config = STRICT

    name: Title
    kind: KindOfSource = Field(description="How it is reached, and which engine copies it")
    address: Annotated[str, Field(max_length=300), STORABLE] = Field(
        "", description="Host name, IP address, URL or socket directory"
    )
    port: Port | None = Field(None, description="The usual port of its kind if empty")
    path: Annotated[str, Field(max_length=500), STORABLE] = Field("", description="Directory, bucket or database")
    options: JsonObject = Field(
        default_factory=dict,
        description=(
            'For example {"user": "backup"}; for the kind rclone the settings of the remote, such as {"type": "smb", …}'
        ),
    )
    secret: Annotated[str, Field(max_length=500), STORABLE] = Field(
        "",
        description="Where its password is found, never the password itself: stored:NAME, env:NAME or "
        "file:/path. Setting it needs a separate permission; without it, a change of kind, "
        "address, port, host key or options clears it",
    )
    secrets: Secrets = Field(
        default_factory=dict,
        description=(
            'For the kind rclone: where the secrets among its options are found, such as {"pass": "stored:nas"}'
        ),
    )
    host_key: Annotated[str, Field(max_length=10_000), STORABLE] = Field(
        "", description="The SSH host key that must answer, as `ssh-keyscan` prints it: ssh-ed25519 AAAA…"
    )
    wake_allowed: bool | None = Field(None, description="Whether to wake it. As its policy says if empty")
    mac_address: Annotated[str, Field(max_length=17), STORABLE] = Field(
        "", description="For Wake-on-LAN, such as 02:00:00:aa:bb:cc"
    )
    wake_address: Annotated[str, Field(max_length=100), STORABLE] = Field(
        "255.255.255.255", description="Broadcast address for the magic packet"
    )
    wake_port: Port = Field(9, description="UDP port for the magic packet")

    retired: bool = Field(
        False,
        description="No longer backed up: it leaves all counts, plans and checks; its backups stay for as long "
        "as they would have been kept",
    )

    @checks("address", "port", "path", "options", "secret", "host_key")
    @classmethod
    def _suits_its_kind(cls, value: Any, info: ValidationInfo) -> Any:
        if rule := RULES.get(info.data.get("kind", "")):
            getattr(validation, f"check_{info.field_name}")(rule, value)
        return value

    @checks("secrets")
    @classmethod
    def _suit_its_remote(cls, secrets: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if (rule := RULES.get(info.data.get("kind", ""))) and "options" in info.data:  # which are right, then
            validation.check_secrets(rule, secrets, info.data["options"])
        return secrets

    @checks("secret")
    @classmethod
    def _is_not_sent_in_clear(cls, secret: str, info: ValidationInfo) -> str:
        rule, address = RULES.get(info.data.get("kind", "")), info.data.get("address", "")
        if rule and rule.address_is_url and (text := cleartext.refusal(address, secret, info.data.get("options", {}))):
            raise ValueError(f"{rule.title} {text}")
        return secret

    @checks("mac_address", "wake_address")
    @classmethod
    def _can_be_woken(cls, value: str, info: ValidationInfo) -> str:
        if info.field_name == "mac_address":
            validation.check_mac_address(value, info.data.get("wake_allowed"))
        else:
            validation.check_wake_address(value, info.data.get("mac_address", ""))
        return value


class RestoreDeclaration(BaseModel):
    """A restore: of what, from which point, and where to. It does not overwrite a file that differs unless that is
    requested.
    """

    model_config = STRICT

    source: Reference = Field(description="The source whose backups are restored")
    policy: Reference | None = Field(None, description="The policy under which it was backed up. Its only one if empty")
    at: Annotated[str, Field(min_length=1, max_length=40), PRINTABLE] | None = Field(
        None,
        description="The newest point at or before this time: 24h (ago), yesterday, 2026-03-02 (its end), "
        "2026-03-02T12:00 in the zone of the policy, 2026-03-02T12:00+01:00, or the name of a "
        "point. The newest one if empty",
    )
    repository: Reference | None = Field(
        None,
        description=(
            "The repository to restore from: that of its backups, or one with copies. The first that has the "
            "point if empty"
        ),
    )
    paths: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=4096), STORABLE]], Field(max_length=MOST_PATHS)
    ] = Field(default_factory=list, description="Files and folders of the source, without a leading /. All if empty")
    to: Annotated[To, Choice()] = Field(
        To.FOLDER, description="Where to: a folder of the worker's host, back to the source, or a new database there"
    )
    target: Annotated[str, Field(max_length=500), PRINTABLE] = Field(
        "",
        description="The absolute path of the folder; in the source, a folder below its path (in place if "
        "empty); the name of the new database, which may be that of a dropped one",
    )
    overwrite: bool = Field(False, description="Replace files that differ; in a folder, also if it is not empty")
    foreign: bool = Field(
        False,
        description=(
            "Allow a foreign point: one that was not written as it is by a backup of this installation, and "
            "may hold anything"
        ),
    )
    dry_run: bool = Field(
        False,
        title="Only look",
        description="Write nothing: look at the target, and list the files that would be left out or replaced",
    )
    user: Annotated[str, Field(max_length=100), PRINTABLE] = Field(
        "",
        title="As another account",
        description="For a new database: the account of its server that restores, with a separate secret. That "
        "of its backups, which has fewer rights, if empty",
    )
    secret: Annotated[str, Field(max_length=500), STORABLE] = Field(
        "",
        title="With its secret",
        description="Where the password of that account is found, never the password itself: stored:NAME, env:NAME or "
        "file:/path. Setting it needs a separate permission. It is forgotten when the restore has ended",
    )
    trusted: bool = Field(
        False,
        title="Trust the dump",
        description="For a new database: the dump may run with all rights of the account where that account "
        "cannot make another one that owns this database alone, and always in PostgreSQL. Then it "
        "comes back with all its owners, event triggers and subscriptions",
    )
    roles_with_rights: bool = Field(
        False,
        title="Roles with all their rights",
        description="For a new database of PostgreSQL: roles that its server lacks get SUPERUSER, CREATEROLE, "
        "REPLICATION and BYPASSRLS, too, if they had them in the backup",
    )

    @checks("paths")
    @classmethod
    def _stay_inside(cls, paths: list[str]) -> list[str]:
        for path in paths:
            if path.startswith("/") or ".." in path.split("/"):
                raise ValueError(f"{path!r:.100} leads out of the source; name it without a leading /")
        return paths

    @checks("target")
    @classmethod
    def _suits_where(cls, target: str, info: ValidationInfo) -> str:
        validation.check_restore_target(str(info.data.get("to", "")), target)
        return target

    @checks("secret")
    @classmethod
    def _is_a_reference(cls, secret: str, info: ValidationInfo) -> str:
        validation.check_restore_account(str(info.data.get("to", "")), str(info.data.get("user", "")), secret)
        return secret
