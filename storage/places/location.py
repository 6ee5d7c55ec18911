"""Where a repository is, as rclone reaches it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

RCLONE, RESTIC = "rclone", "restic"
"""What a repository is written by, and so read by."""
REST = "rest:"


@dataclass(frozen=True)
class Location:
    """A repository with its secrets fetched.

    `root`: rclone's argument for the folder of all assignments, as `/srv/backups`, `base:bucket/backups` or, when it is
    encrypted, `crypt:`. `outside`: the same for `RECOVER.txt` and `repository.json`, never encrypted. `environment`:
    what rclone needs to reach both: credentials, so it goes into no text. `directory`: where it is a folder of this
    host; None: it is a remote. `is_encrypted`: see `layout.ENCRYPTED`. `secrets`: of those credentials what no text may
    hold, also as rclone obscures it. `servers`: host and port of those that it is reached by over HTTP (`servers.py`).
    `format`: "rclone" (`storage.layout`) or "restic" (`storage/restic`), whose own repository is a folder below.
    """

    root: str
    outside: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: Path | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    servers: tuple[tuple[str, int], ...] = ()
    format: str = RCLONE

    @property
    def is_restic(self) -> bool:
        return self.format == RESTIC

    @property
    def is_encrypted(self) -> bool:
        return self.root != self.outside or self.is_restic

    @property
    def is_plain(self) -> bool:
        """Whether `root` is that folder of this host, its files as they are."""
        return self.root == str(self.directory)

    @property
    def keeps_files(self) -> bool:
        """Whether files of ours can lie there. A REST server of restic takes restic's alone."""
        return not self.outside.startswith(REST)

    def at(self, path: str) -> str:
        """rclone's argument for a path in the folder of all assignments."""
        return joined(self.root, path)

    @property
    def bare(self) -> "Location":
        """The same without encryption: where `RECOVER.txt` and `repository.json` lie."""
        return replace(self, root=self.outside)

    def as_json(self) -> dict[str, Any]:
        """For another process, secrets included. `Location.of_json` reads it."""
        return dict(vars(self)) | {"directory": self.directory and str(self.directory)}

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> "Location":
        directory, servers = fields["directory"], tuple((host, port) for host, port in fields["servers"])
        return cls(**fields | {"directory": Path(directory) if directory else None, "servers": servers})


def of_directory(directory: Path) -> Location:
    """A folder of this host, not encrypted."""
    return Location(str(directory), str(directory), directory=directory)


def joined(folder: str, path: str) -> str:
    """rclone's argument for a path in a folder that is one."""
    return f"{folder}{path}" if folder.endswith((":", "/")) else f"{folder}/{path}"
