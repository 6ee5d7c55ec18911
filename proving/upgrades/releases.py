"""The file `releases.toml`: it names the commit of each release, since a clone may lack tags."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "releases.toml"


@dataclass(frozen=True)
class Release:
    """A released version. `migrations`: app → its last migration; `database`: the file with a dump of its database."""

    version: str
    commit: str
    database: Path
    migrations: dict[str, str]


@dataclass(frozen=True)
class Allowance:
    """An accepted problem of a migration (`app.name`): its rule and the reason."""

    migration: str
    rule: str
    because: str


@dataclass(frozen=True)
class Releases:
    """All releases, the oldest first, and the allowances for migrations since the newest."""

    releases: list[Release]
    allowed: list[Allowance]

    @property
    def newest(self) -> Release | None:
        return self.releases[-1] if self.releases else None


def read(file: Path = FILE) -> Releases:
    """Read the file. Raises: ValueError if it is not as it should be."""
    found = tomllib.loads(file.read_text())
    try:
        releases = [_release(file, each) for each in found.get("release", [])]
        allowed = [Allowance(**each) for each in found.get("allowed", [])]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file}: {error}") from error
    if without := [each.migration for each in allowed if not each.because.strip()]:
        raise ValueError(f"{file}: say why this is allowed: {', '.join(without)}")
    return Releases(releases, allowed)


def entry(release: Release) -> str:
    """The lines of a release for the file."""
    database = release.database.relative_to(ROOT).as_posix()
    facts = {"version": release.version, "commit": release.commit, "database": database}
    lines = [f'{name} = "{value}"' for name, value in facts.items()]
    leaves = [f'{app} = "{name}"' for app, name in sorted(release.migrations.items())]
    return "\n".join(["[[release]]", *lines, "", "[release.migrations]", *leaves, ""])


def _release(file: Path, facts: dict[str, Any]) -> Release:
    return Release(facts["version"], facts["commit"], file.parent / facts["database"], dict(facts["migrations"]))
