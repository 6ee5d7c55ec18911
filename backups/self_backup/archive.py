"""The archive of a day and the key that opens it. The format is age's (https://age-encryption.org/v1).

A key pair is made once. The public half, which is all that a day's backup needs, is stored in the database; the other
one is kept next to the archives, sealed by the passphrase.
"""

import json
import secrets
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyrage

from external.processes.rows import row_of
from storage import layout

FORMAT = 1
FOLDER = "scheduler"
KEY = "key.age"
ENDING = ".tar.age"
ABOUT, DATABASE, FILES = "about.json", "database.dump", "files"
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Letters and digits, without those that look alike on paper."""
GROUPS, LETTERS = 6, 5
TRIES = 50
EXCESSIVE = "Excessive work parameter"
"""A part of age's message about a key for which this machine would take sixteen times as long as the one
that made it.
"""


class WrongPassphrase(Exception):
    """The passphrase does not open the key, or the key does not open the archive. The message says which."""


class TooSlow(Exception):
    """This machine would take too long to open the key, whatever the passphrase. The message names what to do."""


class ArchiveDamaged(Exception):
    """An archive cannot be read. The message names the problem."""


@dataclass(frozen=True)
class ArchiveKey:
    """A key pair. `recipient`: the key that archives are sealed for. `age_identity`: the one that opens them, sealed by
    `passphrase`.
    """

    recipient: str
    age_identity: bytes = field(repr=False)
    passphrase: str = field(repr=False)


@dataclass(frozen=True)
class About:
    """The description of an archive. `migrations`: app and name of each that its database has; `environment`: the
    variables of the worker that the settings read; `var`: its directory then; `made_at`: ISO 8601.
    """

    made_at: str
    var: str
    migrations: list[list[str]]
    environment: dict[str, str] = field(repr=False)
    format: int = FORMAT


def make_key() -> ArchiveKey:
    """A new key pair and a passphrase of 150 random bits for it. Takes a second: age's own work factor."""
    identity = pyrage.x25519.Identity.generate()
    groups = ("".join(secrets.choice(ALPHABET) for _ in range(LETTERS)) for _ in range(GROUPS))
    passphrase = "-".join(groups)
    sealed = pyrage.passphrase.encrypt(str(identity).encode(), passphrase, armored=True)
    return ArchiveKey(str(identity.to_public()), sealed, passphrase)


def open_key(age_identity: bytes, passphrase: str) -> str:
    """The identity. Raises: WrongPassphrase, TooSlow."""
    for _ in range(TRIES):
        try:
            return str(pyrage.passphrase.decrypt(age_identity, passphrase.strip()), "ascii")
        except (pyrage.DecryptError, ValueError) as error:
            if EXCESSIVE not in str(error):
                raise WrongPassphrase(
                    "this passphrase does not open the key of the scheduler's backups: look at the paper again, each "
                    "letter and hyphen counts"
                ) from None
            slow = str(error).splitlines()[-1]
        # age judges the machine's speed by a few milliseconds, in which it may have been busy with something else
        time.sleep(0.1)
    raise TooSlow(
        "the passphrase was not tried: this machine is much slower than the one that made the key, or busy. "
        f"{slow} Repeat it when the machine is idle, or open the backup elsewhere, with age alone, as "
        "docs/restoring.md describes"
    )


def names_among(files: Iterable[str]) -> list[str]:
    """The names of the archives among the files of their folder, in the order in which they were made."""
    names = (each.removesuffix(ENDING) for each in files if each.endswith(ENDING))
    return layout.by_time(names)


def pack(folder: Path, about: About, files: Iterable[Path], recipient: str) -> Path:
    """Pack the contents of `folder` (its `database.dump`), and `files` with their absolute paths. Returns the sealed
    file, in `folder`. Files that cannot be read are left out. Raises: OSError.
    """
    (folder / ABOUT).write_text(json.dumps(asdict(about)))
    plain, sealed = folder / "archive.tar", folder / f"archive{ENDING}"
    with tarfile.open(plain, "w") as tar:
        tar.add(folder / ABOUT, ABOUT)
        tar.add(folder / DATABASE, DATABASE)
        for file in files:
            tar.add(file, f"{FILES}{file}", recursive=False)
    pyrage.encrypt_file(str(plain), str(sealed), [pyrage.x25519.Recipient.from_str(recipient)])
    plain.unlink()
    return sealed


@contextmanager
def opened(sealed: Path, identity: str) -> Iterator[tuple[About, tarfile.TarFile]]:
    """The description of an archive, and its files. There is a plain copy next to it in the meantime.

    Raises: WrongPassphrase, ArchiveDamaged.
    """
    plain = sealed.with_name(sealed.name + ".tar")
    try:
        try:
            pyrage.decrypt_file(str(sealed), str(plain), [pyrage.x25519.Identity.from_str(identity.strip())])
        except (pyrage.DecryptError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ArchiveDamaged(
                f"{sealed.name} cannot be opened with the key next to it ({error}): it is damaged, or of another key"
            ) from None
        with tarfile.open(plain) as tar:
            yield _about(tar, sealed), tar
    except tarfile.TarError as error:
        raise ArchiveDamaged(f"{sealed.name} is not an archive of the scheduler: {error}") from None
    finally:
        plain.unlink(missing_ok=True)


def _about(tar: tarfile.TarFile, sealed: Path) -> About:
    try:
        found = tar.extractfile(ABOUT)
        row = (row_of(found.read()) if found else None) or {}
    except KeyError:
        row = {}
    if row.get("format") != FORMAT:
        raise ArchiveDamaged(
            f"{sealed.name} has format {row.get('format')}, and {FORMAT} is read here: use the version of the "
            "scheduler that wrote it, or a newer one"
        )
    try:
        return About(**row)
    except TypeError:
        raise ArchiveDamaged(
            f"{sealed.name} does not name its installation: it is damaged, or was not made by the scheduler"
        ) from None
