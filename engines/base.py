"""What every engine is given and what it gives back."""

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
        """What no text may hold."""
        return [self.secret or "", *self.secrets.values()]


@dataclass(frozen=True)
class BackupTask:
    """What to copy, where to, and how.

    `folder` is that of this assignment alone, in the repository at `location`. `started_at` (aware, UTC) names the
    point. `stall_timeout` and `grace` are in seconds: of a program that makes no progress, and for the end of all that
    a stop ends. `reserve`: percent of the repository's file system that stay free (`limits.py`). `least_rate`: bytes a
    second, over a window (`limits.py`); None: any. `policy`: its name, for the manifest; `zone`: its time zone.
    `engine_version`: of the engine's program, where the worker knows it; empty: the engine asks. `staging`: the folder
    of this host for what has to lie there as files first (`staging.py`). Of a source that was copied there, the kind is
    `source_kind`, and `left_out` says what is not in that copy. `last_snapshot`: the `snapshot` of the
    newest point in a restic repository, of `last_files` files, as far as they are known. `record`: its id, to be found
    by. `newest`: the newest point there by our rows; empty: none. `known`: the points of this assignment there that are
    ours; None: all are. `damaged`: the places of files there (`Entry.place`) that a check has found damaged or missing.
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
        """The folder where it is one of this host, its files as they are."""
        return Path(self.location.at(self.folder)) if self.location.is_plain else None

    @property
    def program_grace(self) -> float:
        """For the end of the engine's program. The rest is left for the copy that it leaves in pieces."""
        return self.grace / 2


@dataclass(frozen=True)
class EngineProgress:
    """How far a run is; totals grow while the engine still lists files."""

    bytes_done: int
    bytes_total: int
    files_done: int


class Verdict(Enum):
    """What an engine's exit code means. Each engine has its own table."""

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
    """How a run ended. `snapshot` names the point; `error` is one bounded message for people.

    `manifest`: the digest of the point's manifest; empty of one of restic. `size` and `files`: bytes and files that the
    backup protects. `new`, `changed`, `unchanged`, `removed`: files, as
    against the last backup; `read`: bytes from the source; `added`: bytes to the repository. None: unknown.
    `tables`, `rows`: of a database. `doubt`: why the engine itself finds that the source may have lost something.
    `warnings`: one for each thing, the first `WARNINGS` of them (`results.py`); `not_kept`: what the source had and no
    backup of its kind keeps, which is no warning. `repository`: the id of the one that it
    went into, `engine`: the name of the one that ran, both as its handler adds. `room`: bytes that are free in the
    repository then, and that it has in all.
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
    """What an engine sees between two looks at its program ends the run. The message is for people."""

    def __init__(self, verdict: Verdict | str, text: str) -> None:
        super().__init__(verdict, text)
        self.verdict, self.text = Verdict(verdict), text

    def __str__(self) -> str:
        return self.text


class Stalled(RunEnded):
    """Its program showed nothing new for as long as the task allows, and was ended."""
