"""The data that every engine receives and returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from storage.places.location import Location
from storage.points.known import Known


@dataclass(frozen=True)
class SourceSpec:
    """A source as an engine sees it: the columns of `sources.models.Source`, with the secret fetched.

    `secret` is the password itself, or None; `secrets` are those of an rclone remote, by option. They go into
    the environment or a file, never into argv or a log. `real_path`: see `whereabouts.py`.
    """

    name: str
    kind: str
    address: str
    port: int | None
    path: str
    options: dict[str, Any]
    secret: str | None = field(repr=False)
    host_key: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    real_path: str = ""

    @property
    def hidden(self) -> list[str]:
        """Texts that must not appear in any message."""
        return [self.secret or "", *self.secrets.values()]


@dataclass(frozen=True)
class BackupTask:
    """A backup to run: what to copy, where to, and how.

    `folder` belongs to this assignment alone, in the repository at `location`. `started_at` (aware, UTC) names the
    point. `stall_timeout` and `grace` are in seconds: for a program that makes no progress, and for everything to end
    after a stop. `reserve`: the percentage of the repository's file system that stays free (`limits.py`). `least_rate`:
    bytes a second, over a window (`limits.py`); None if any rate will do. `policy`: its name, for the manifest; `zone`:
    its time zone. `engine_version`: the version of the engine's program, if the worker knows it; if it is empty, the
    engine asks. `staging`: the folder on this host for files that must be stored there first (`staging.py`). If the
    source was copied there, `source_kind` is its kind, and `left_out` lists what that copy lacks. `last_snapshot`: the
    `snapshot` of the newest point in a restic repository, with `last_files` files, as far as they are known. `record`:
    its record's id, by which it can be found. `newest`: the newest point there according to the database; empty if
    there is none. `known`: the points of this assignment there that are ours; None if all are. `damaged`: the places of
    files there (`Entry.place`) that a check has found damaged or missing.
    """

    source: SourceSpec
    location: Location
    folder: str
    started_at: datetime
    options: dict[str, Any] = field(default_factory=dict)
    connect_timeout: float = 60.0
    stall_timeout: float = 600.0
    grace: float = 8.0
    reserve: float = 0.0
    least_rate: int | None = None
    policy: str = ""
    zone: str = "UTC"
    engine_version: str = ""
    staging: str = ""
    last_snapshot: str = ""
    last_files: int | None = None
    record: str = ""
    source_kind: str = ""
    left_out: tuple[str, ...] = ()
    newest: str = ""
    known: Known | None = None
    damaged: frozenset[str] = frozenset()

    @property
    def directory(self) -> Path | None:
        """The folder, if it is on this host and its files are stored as they are; else None."""
        return Path(self.location.at(self.folder)) if self.location.is_plain else None

    @property
    def program_grace(self) -> float:
        """Seconds for the engine's program to end. The rest of the grace is left to remove the pieces of its copy."""
        return self.grace / 2


@dataclass(frozen=True)
class EngineProgress:
    """The progress of a run; totals grow while the engine still lists files."""

    bytes_done: int
    bytes_total: int
    files_done: int


class Verdict(Enum):
    """The meaning of an engine's exit code. Each engine has a separate table."""

    SUCCEEDED = "succeeded"
    WARNINGS = "succeeded with warnings"
    SOURCE_FAILED = "the source failed"
    FILLED = "it needs more room than the repository has"
    REPOSITORY_FAILED = "the repository failed"
    BUSY = "another run writes there"
    UNAVAILABLE = "the source did not answer"
    NOT_FOR_NOW = "the source answers, and cannot be read for now"
    STOPPED = "stopped on request"


@dataclass(frozen=True)
class EngineResult:
    """The end of a run. `snapshot` names the point; `error` is one bounded message for users.

    `manifest`: the digest of the point's manifest; empty for a point of restic. `size` and `files`: bytes and files
    that the backup protects. `new`, `changed`, `unchanged`, `removed`: files, compared with the last backup; `read`:
    bytes from the source; `added`: bytes to the repository. All of these are None if unknown. `tables`, `rows`: counts
    of a database. `doubt`: why the engine itself finds that the source may have lost something. `warnings`: the first
    `WARNINGS` of them (`results.py`), one for each thing; `not_kept`: things that the source had and that no backup of
    its kind keeps, which is not a warning. `repository`: the id of the repository that it went into, `engine`: the name
    of the engine that ran; the handler adds both. `room`: the bytes that were free in the repository at that time, and
    its total.
    """

    verdict: Verdict
    size: int = 0
    files: int = 0
    new: int | None = None
    changed: int | None = None
    unchanged: int | None = None
    removed: int | None = None
    read: int | None = None
    added: int | None = None
    tables: int | None = None
    rows: int | None = None
    doubt: str = ""
    snapshot: str = ""
    manifest: str = ""
    warnings: tuple[str, ...] = ()
    not_kept: tuple[str, ...] = ()
    error: str = ""
    repository: int | None = None
    engine: str = ""
    room: tuple[int, int] | None = None


class RunEnded(Exception):
    """The run has to end because of something that the engine notices while its program runs. The message is for
    users.
    """

    def __init__(self, verdict: Verdict | str, text: str) -> None:
        super().__init__(verdict, text)
        self.verdict, self.text = Verdict(verdict), text

    def __str__(self) -> str:
        return self.text


class RunStalled(RunEnded):
    """The program showed nothing new for as long as the task allows, and was ended."""
