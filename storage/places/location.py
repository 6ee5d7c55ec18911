"""The location of a repository, as rclone reaches it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

RCLONE, RESTIC = "rclone", "restic"
"""The formats: the program that writes a repository, and so reads it."""
REST = "rest:"
BUCKETS = ("azureblob", "b2", "google cloud storage", "oracleobjectstorage", "qingstor", "s3", "storj", "swift")
"""Types of rclone's remotes that have no folders."""
LOSING = {"webdav": "no partial names: a failed upload is deleted, also if it was to replace a file"}
"""Types of rclone's remotes whose failed uploads cost the file that they were to replace → the reason. Others upload
under a partial name (`PartialUploads` of `rclone backend features`: sftp, ftp, smb, azurefiles, local), or, like
buckets, have a file only once it is whole.
"""
OVER = ("--no-check-dest", "--low-level-retries=1")
"""Options of an rclone that moves a file over another one: where it looks for an old file, it deletes that first; and
if it moves a file again whose move was only not answered, there are servers, such as its own, that delete the new one
and find nothing to move.
"""


@dataclass(frozen=True)
class Location:
    """A repository with its secrets fetched.

    `root`: rclone's argument for the folder of all assignments, such as `/srv/backups`, `base:bucket/backups` or, when
    it is encrypted, `crypt:`. `outside`: the same for `RECOVER.txt` and `repository.json`, never encrypted.
    `environment`: the settings that rclone needs to reach both: they include credentials, so no text may contain them.
    `directory`: the folder on this host; None if it is a remote. `is_encrypted`: see `layout.ENCRYPTED`. `secrets`: the
    parts of those credentials that no text may contain, also as rclone obscures them. `servers`: host and port of each
    server through which it is reached over HTTP (`servers.py`). `format`: "rclone" (`storage.layout`) or "restic"
    (`storage/restic`); restic's repository is a subfolder.
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
        """True if `root` is that folder on this host, its files unencrypted."""
        return self.root == str(self.directory)

    @property
    def may_rename(self) -> bool:
        """True if it may list a file under another name than it was given. Encrypted names and the keys of a bucket
        stay as they are.
        """
        kinds = {value for name, value in self.environment.items() if name.endswith("_TYPE")}
        return not self.is_encrypted and kinds.isdisjoint(BUCKETS)

    @property
    def loses_replaced(self) -> bool:
        """True if an upload that fails there costs the file that it was to replace."""
        return any(value in LOSING for name, value in self.environment.items() if name.endswith("_TYPE"))

    @property
    def keeps_files(self) -> bool:
        """True if files of the scheduler can be stored there. A REST server of restic takes only restic's."""
        return not self.outside.startswith(REST)

    def at(self, path: str) -> str:
        """rclone's argument for a path in the folder of all assignments."""
        return joined(self.root, path)

    @property
    def bare(self) -> "Location":
        """The same location without encryption: the place of `RECOVER.txt` and `repository.json`."""
        return replace(self, root=self.outside)

    def as_json(self) -> dict[str, Any]:
        """The fields for another process, secrets included. `Location.of_json` reads them."""
        return dict(vars(self)) | {"directory": self.directory and str(self.directory)}

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> "Location":
        directory, servers = fields["directory"], tuple((host, port) for host, port in fields["servers"])
        return cls(**fields | {"directory": Path(directory) if directory else None, "servers": servers})


def of_directory(directory: Path) -> Location:
    """The location of a folder on this host, not encrypted."""
    return Location(str(directory), str(directory), directory=directory)


def joined(folder: str, path: str) -> str:
    """rclone's argument for a path in a folder that is also such an argument."""
    return f"{folder}{path}" if folder.endswith((":", "/")) else f"{folder}/{path}"
