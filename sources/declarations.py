"""What a repository, a policy and a source may be, as far as no table is needed to say so."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationInfo
from pydantic import field_validator as checks

from declarations.types import (
    PRINTABLE,
    STORABLE,
    STRICT,
    Choice,
    JsonObject,
    ManySeconds,
    Port,
    Positive,
    Priority,
    Reference,
    Seconds,
    SomeSeconds,
    Title,
)
from schedules.declarations import Cron, Zone
from sources import repository_rules, validation
from sources.domain.excluded_dates import ExcludedDates
from sources.domain.retention import Keep, usual
from sources.domain.windows import Window
from sources.engines import cleartext
from sources.kinds import RULES
from sources.models import AtClose, To
from sources.models.source import SourceKind

MOST_ROWS = 200
"""Ranges of a window, and excluded dates."""

MOST_PATHS = 1000
"""Of a restore: who wants more names a folder."""

KindOfSource = Annotated[SourceKind, Choice()]


def _ranges(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    Window.parse(rows, "UTC")
    return rows


def _dates(entries: list[str]) -> list[str]:
    ExcludedDates.parse(entries)
    return entries


def _engine_options(options: dict[str, Any]) -> dict[str, Any]:
    validation.check_engine_options(options)
    return options


def _keep(rules: dict[str, Any]) -> dict[str, Any]:
    Keep.parse(rules)
    return rules


class Repository(BaseModel):
    """Where backups go: a directory, or a folder of any remote that rclone has, as they are or encrypted. What is
    missing there is made; writing, reading and deleting are tried before it is saved."""

    model_config = STRICT

    name: Title
    remote: JsonObject = Field(
        default_factory=dict,
        description='Settings of rclone, as {"type": "s3", "provider": "Other", "endpoint": …}; `rclone config '
        "providers` lists them. Empty: a directory of this host",
    )
    location: Annotated[str, Field(min_length=1, max_length=500), STORABLE] = Field(
        description="Absolute path of a directory, as /srv/backups; of a remote the path there, as bucket/backups"
    )
    secrets: Annotated[dict[str, Annotated[str, Field(max_length=500), STORABLE]], Field(max_length=20)] = Field(
        default_factory=dict,
        description='Where the secrets of the remote are found, never they themselves, as {"secret_access_key": '
        '"file:/path"}. To set them needs a permission of its own; another remote or location without that clears them',
    )
    encrypted: bool = Field(False, description="Names and contents, before they leave this host. It cannot be changed")
    key: Annotated[str, Field(max_length=500), STORABLE] = Field(
        "", description="Where the key of an encrypted one is found. Empty: a new one is made, and shown once"
    )

    @checks("remote", "location", "secrets", "key")
    @classmethod
    def _suits(cls, value: Any, info: ValidationInfo) -> Any:
        if info.field_name == "remote" or "remote" in info.data:  # which is right, then
            getattr(repository_rules, f"check_{info.field_name}")(value, info.data)
        return value


class Policy(BaseModel):
    """How often its sources are backed up, in which window, to where, and how. Durations are seconds, or as `15m`.

    Whether its window ever opens is checked, too.
    """

    model_config = STRICT

    name: Title
    enabled: bool = Field(True, description="No backups of it begin while it is not")
    repository: Reference = Field(description="Where its backups go")
    priority: Priority = Field(0, description="Higher is backed up first")
    cron: Cron = Field(description="When a period begins: five fields, as `0 9 * * 1-5`")
    zone: Zone = Field("UTC", description="IANA time zone, as Europe/Berlin")
    window: Annotated[list[JsonObject], Field(max_length=MOST_ROWS), AfterValidator(_ranges)] = Field(
        default_factory=list,
        description='When it may run, in its zone, as [{"days": "mon-fri", "start": "22:00", "end": "06:00"}]. '
        "Empty: always",
    )
    excluded_dates: Annotated[
        list[Annotated[str, Field(max_length=40), PRINTABLE]], Field(max_length=MOST_ROWS), AfterValidator(_dates)
    ] = Field(
        default_factory=list,
        description='Local dates on which no range of its window begins, as ["2026-12-24", "12-25", '
        '"2026-12-27..2026-12-31"]. A date without a year is that of every year',
    )
    at_close: Annotated[AtClose, Choice()] = Field(
        AtClose.FINISH, description="What becomes of a running backup when the window closes"
    )
    only_if_it_fits: bool = Field(
        False,
        description="Start only what its last duration lets end before the window closes. What was left out in three "
        "openings running is started in the next one all the same",
    )
    engine_options: Annotated[JsonObject, AfterValidator(_engine_options)] = Field(
        default_factory=dict, description='Of the engine, as {"transfers": 4, "bwlimit": "10M"}'
    )
    keep: Annotated[JsonObject, AfterValidator(_keep)] = Field(
        default_factory=usual,
        description='Which points in time to keep, as {"last": 7, "hourly": 24, "daily": 14, "weekly": 8, '
        '"monthly": 12, "yearly": 3, "within": "30d"}: the last ones, the newest of each hour, day, …, and all within '
        "that time of the newest. {}: all, for ever",
    )
    check_within: ManySeconds | None = Field(
        28 * 86_400,
        description="In which all that lies in the repository is read and compared with what was written, some of it "
        "each day. None: never",
    )
    drill_every: ManySeconds | None = Field(
        30 * 86_400,
        description="After which its newest point is restored again into scratch space, a sample of it where it is "
        "large, and compared; a database into a scratch server. None: never",
    )
    max_running_for: ManySeconds = Field(86_400, description="After which a backup that still runs is stopped")
    least_rate: Positive | None = Field(
        None,
        description="Bytes a second. A backup that fetches fewer over five minutes is ended, which is a failure of its "
        "source. Many small files are slow by nature. None: no limit",
    )
    retry_policy: Reference | None = Field(None, description="None: Fibonacci, 60 s")
    throttle: Reference | None = Field(None, description="That its backups share")
    seeding_limit: Positive | None = Field(
        None, description="At most so many execution units for first backups. None: no limit"
    )
    connect_timeout: SomeSeconds = Field(60, description="To wait for a source to answer")
    recheck_after: ManySeconds = Field(900, description="Until a silent source is asked again")
    vanish_grace: Seconds = Field(
        120, description="For which a source that stopped answering in mid-backup is waited for"
    )
    address_follows: bool = Field(
        False,
        description="Take over the address from which an SFTP source checks in, if its pinned host key answers there",
    )
    on_battery: bool = Field(True, description="Back up sources that say they run on battery")
    on_metered: bool = Field(True, description="Back up sources that say their connection is metered")
    wake_allowed: bool = Field(False, description="Send a magic packet to a silent source")
    wake_every: Seconds = Field(14_400, description="At most one magic packet in this time")
    wake_wait: SomeSeconds = Field(180, description="From a magic packet to the re-check")
    alert_after: ManySeconds | None = Field(
        None, description="Without a backup, after which an assignment is overdue. None: a whole period was missed"
    )


class Source(BaseModel):
    """A thing to protect: a laptop, server, share, bucket, folder or database. Its kind says which fields it needs."""

    model_config = STRICT

    name: Title
    kind: KindOfSource = Field(description="How it is reached, and which engine copies it")
    address: Annotated[str, Field(max_length=300), STORABLE] = Field(
        "", description="Host name, IP address, URL or socket directory"
    )
    port: Port | None = Field(None, description="None: the usual port of its kind")
    path: Annotated[str, Field(max_length=500), STORABLE] = Field("", description="Directory, bucket or database")
    options: JsonObject = Field(default_factory=dict, description='As {"user": "backup"}')
    secret: Annotated[str, Field(max_length=500), STORABLE] = Field(
        "",
        description="Where its password is found, never the password itself: stored:NAME, env:NAME or file:/path. "
        "To set it needs a permission of its own; a change of kind, address, port, host key or options without that "
        "clears it",
    )
    host_key: Annotated[str, Field(max_length=10_000), STORABLE] = Field(
        "", description="The SSH host key that must answer, as `ssh-keyscan` prints it: ssh-ed25519 AAAA…"
    )
    wake_allowed: bool | None = Field(None, description="Whether to wake it. None: as its policy says")
    mac_address: Annotated[str, Field(max_length=17), STORABLE] = Field(
        "", description="For Wake-on-LAN, as 02:00:00:aa:bb:cc"
    )
    wake_address: Annotated[str, Field(max_length=100), STORABLE] = Field(
        "255.255.255.255", description="Broadcast address for the magic packet"
    )
    wake_port: Port = Field(9, description="UDP port for the magic packet")

    @checks("address", "port", "path", "options", "secret", "host_key")
    @classmethod
    def _suits_its_kind(cls, value: Any, info: ValidationInfo) -> Any:
        if rule := RULES.get(info.data.get("kind", "")):
            getattr(validation, f"check_{info.field_name}")(rule, value)
        return value

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


class Restore(BaseModel):
    """What to restore, of which point, and where to. It never writes over what differs unless that is asked for."""

    model_config = STRICT

    source: Reference = Field(description="Whose backups")
    policy: Reference | None = Field(None, description="Under which it was backed up. None: it has one only")
    at: Annotated[str, Field(min_length=1, max_length=40), PRINTABLE] | None = Field(
        None,
        description="The newest point at or before: as 24h (ago), yesterday, 2026-03-02 (its end), 2026-03-02T12:00 in "
        "the zone of the policy, 2026-03-02T12:00+01:00, or the name of a point. None: the newest one",
    )
    paths: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=4096), STORABLE]], Field(max_length=MOST_PATHS)
    ] = Field(default_factory=list, description="Files and folders of the source, without / before them. Empty: all")
    to: Annotated[To, Choice()] = Field(
        To.FOLDER, description="Where to: a folder of the worker's host, back to the source, or a new database there"
    )
    target: Annotated[str, Field(max_length=500), PRINTABLE] = Field(
        "",
        description="The absolute path of the folder; in the source, a folder below its path (empty: in place); the "
        "name of the new database",
    )
    overwrite: bool = Field(False, description="Replace files that differ; in a folder, also if it is not empty")

    @checks("paths")
    @classmethod
    def _stay_inside(cls, paths: list[str]) -> list[str]:
        for path in paths:
            if path.startswith("/") or ".." in path.split("/"):
                raise ValueError(f"{path!r:.100} leads out of the source; name it without / before")
        return paths

    @checks("target")
    @classmethod
    def _suits_where(cls, target: str, info: ValidationInfo) -> str:
        validation.check_restore_target(str(info.data.get("to", "")), target)
        return target
