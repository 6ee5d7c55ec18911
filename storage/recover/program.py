"""`backupsched recover`: restores from a repository when the scheduler is gone.

It needs the repository, and the key of an encrypted one. No database, no settings: without Django.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from external.processes.programs import ProgramMissing
from external.processes.runner import StopSignal
from storage import layout
from storage.places import identity, remotes
from storage.places.identity import Identity
from storage.places.location import RCLONE, RESTIC, Location
from storage.places.locks import Busy
from storage.places.servers import servers_of
from storage.points import runs
from storage.points.manifests import ManifestDamaged
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.points.trees import NotThere, opened
from storage.recover import showing
from storage.restoring import into_folder, moments
from storage.restoring.base import Wish
from storage.stores import store_of

ABOUT = (
    "Restore from a repository when the scheduler is lost: no database, no settings. It never overwrites files "
    "without --overwrite, and continues when it is repeated. Exit codes: 0; 1 when something could not be "
    "restored; 2 for bad usage, with nothing written."
)


def main(arguments: Sequence[str], stop: StopSignal | None = None) -> int:
    """Run the command until `stop` is set. Returns the exit code."""
    options = vars(parser().parse_args(arguments))
    try:
        with tempfile.TemporaryDirectory(prefix="backupsched-recover-") as scratch:
            store = opened_at(options, stop or Event())
            return (_list if options["list"] else _restore)(store, options, Path(scratch))
    except ValueError as error:
        return _complain(str(error), 2)
    except (StorageFailed, ManifestDamaged, ProgramMissing) as error:
        return _complain(showing.to_be_repeated(error), 1)
    except Busy as error:
        return _complain(
            f"{error}. Repeat it when that has ended; the lock of one that is gone counts for half an hour", 1
        )
    except OSError as error:
        named = f"{error.filename or options['to'] or options['repository']}: {error.strerror or error}"
        return _complain(showing.to_be_repeated(named), 1)
    except StorageStopped:
        return _complain("stopped; the same command continues where it was", 1)


def parser() -> argparse.ArgumentParser:
    """The parser of its arguments."""
    made = argparse.ArgumentParser(prog="backupsched recover", description=ABOUT, allow_abbrev=False)
    add_repository(made)
    made.add_argument(
        "--source",
        type=showing.given("one"),
        metavar="NAME",
        help="one source, or one assignment such as nas-7/nightly (all)",
    )
    made.add_argument("--key-file", type=Path, metavar="FILE", help="holds the key of an encrypted repository")
    showing.add_options(made, "this host")
    return made


def add_repository(made: argparse.ArgumentParser) -> None:
    """Add the arguments that `location_of` reads, except for the key."""
    made.add_argument("repository", metavar="REPOSITORY", help="a folder, or a path in the remote of --remote")
    made.add_argument(
        "--remote", action="append", default=[], metavar="OPTION=VALUE",
        help="setting of its remote, by rclone's name: type=s3, endpoint=… and so on; OPTION=@FILE for a "
        "secret that a file holds. Or set what RECOVER.txt names, and call the repository base:PATH",
    )  # fmt: skip


def opened_at(options: dict[str, Any], stop: StopSignal) -> Store:
    """The repository, in the format that its identity names; if the identity is lost, the format is found from the
    files there. Raises: ValueError, OSError, StorageFailed.
    """
    location = location_of(options)
    if location.is_restic:
        return store_of(location, stop)
    outside = Store(location.bare, stop)
    try:
        found = identity.read(outside)
    except identity.UnreadableIdentity:
        found = None
        sys.stderr.write(f"its {layout.REPOSITORY} cannot be read; this continues without it\n")
    if found is not None:
        check_key(found, location, options)
        return store_of(location_of(options, found.format), stop)
    return store_of(location_of(options, RESTIC) if "config" in outside.names(RESTIC) else location, stop)


def location_of(options: dict[str, Any], format: str = RCLONE) -> Location:
    """The location of the repository. Raises: ValueError, OSError."""
    remote: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for written in options["remote"]:
        name, equals, value = written.partition("=")
        if not equals:
            raise ValueError(f"--remote {name!r:.60} is not OPTION=VALUE, such as type=s3")
        if value.startswith("@"):
            secrets[name] = Path(value[1:]).read_text().strip("\r\n")
        else:
            remote[name] = value
    if (remote or secrets) and "type" not in remote:
        raise ValueError("--remote type=… is missing: s3, sftp, webdav, …, as rclone calls it")
    path, key = options["repository"], _key(options)
    if not remote and path.startswith("base:"):
        given = {name: value for name, value in os.environ.items() if name.startswith("RCLONE_CONFIG_BASE_")}
        if "RCLONE_CONFIG_BASE_TYPE" not in given:
            raise ValueError(f"RCLONE_CONFIG_BASE_TYPE is not set; set what {layout.RECOVER} names, or use --remote")
        settings = {name.removeprefix("RCLONE_CONFIG_BASE_").lower(): value for name, value in given.items()}
        servers = tuple(servers_of(settings, path.removeprefix("base:")))
        return replace(remotes.in_environment(path, given, key, format), servers=servers)
    if not remote:
        path = str(Path(path).absolute())
        if not Path(path).is_dir():
            raise ValueError(f"{path} is not a folder here; name the one that holds {layout.RECOVER}")
    if remote.get("type") == "rest":
        format = RESTIC
    return remotes.location_of(path, remote, secrets, key, format=format)


def check_key(found: Identity, location: Location, options: dict[str, Any]) -> None:
    """Raises: ValueError for an encrypted repository without its key, or with a wrong one."""
    if found.encrypted and not location.is_encrypted:
        raise ValueError(
            f"the repository {found.name} is encrypted: name the file that holds its key with --key-file. "
            "Without the key nothing in it can be read"
        )
    if location.is_encrypted and not found.encrypted:
        raise ValueError(f"the repository {found.name} is not encrypted: leave out --key-file")
    if found.encrypted and identity.digest_of(_key(options)) != found.key_digest:
        raise ValueError(
            f"the key in {options['key_file']} is not that of the repository {found.name}; give the right one"
        )


def _key(options: dict[str, Any]) -> str | None:
    """Raises: ValueError."""
    if not (file := options.get("key_file")):
        return None
    try:
        key = file.read_text().strip()
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the key file {file} cannot be read: {getattr(error, 'strerror', 'it is not text')}"
        ) from None
    if not key:
        raise ValueError(f"{file} holds no key: it is empty")
    return str(key)


def assignments_in(store: Store, name: str | None) -> dict[str, str]:
    """Folder → its title from the newest manifest. `name`: only for this source or assignment.

    Raises: NotThere, naming the existing ones.
    """
    found = {}
    folders = store.assignments()
    for folder in [each for each in folders if name in (each, each.partition("/")[0])] or folders:
        if points := runs.points(store, folder):
            found[folder] = _title(store, folder, points)
    if not found:
        raise NotThere("this repository holds no point; is it the folder that holds RECOVER.txt?")
    wanted = {
        folder: title
        for folder, title in found.items()
        if name in (None, folder, folder.partition("/")[0], title.partition(" under ")[0])
    }
    if not wanted:
        raise NotThere(f"there is no source {name!r}; there is {', '.join(found)}")
    return wanted


def _title(store: Store, folder: str, points: list[str]) -> str:
    """The source and policy in the newest manifest that can be read, otherwise the folder."""
    for point in points[::-1]:
        with suppress(ManifestDamaged):
            if header := store.header(folder, point):
                return f"{header.source} under {header.policy}"
    return folder


def _list(store: Store, options: dict[str, Any], scratch: Path) -> int:
    zone, rows = local_zone(), []
    assignments = assignments_in(store, options["source"])
    if (options["at"] or options["path"]) and len(assignments) > 1:
        raise ValueError(f"name one with --source: {', '.join(assignments)}")
    for folder, title in assignments.items():
        tree_of = partial(opened, store, folder, cache=scratch)
        found, line = showing.listed(runs.points(store, folder), tree_of, options, datetime.now(UTC), zone)
        rows += [{"assignment": folder, **row} for row in found]
        if not options["json"]:
            _print("\n".join([showing.printable(f"{folder}: {title}"), *map(line, found)]))
    if options["json"]:
        _print(json.dumps(rows))
    return 0


def _restore(store: Store, options: dict[str, Any], scratch: Path) -> int:
    """Restore one assignment into the target, or several, each into a separate folder in it."""
    zone, now = local_zone(), datetime.now(UTC)
    assignments = assignments_in(store, options["source"])
    failed, target = 0, options["to"].resolve()
    for folder, title in assignments.items():
        point, points = "", runs.points(store, folder)
        try:
            point = moments.choose(points, options["at"], now, zone)
            into = target / folder if len(assignments) > 1 else target
            wish = Wish(folder, point, into, tuple(options["path"]), options["overwrite"], options["dry_run"])
            with showing.ProgressDisplay(_print, as_json=options["json"]) as shown:
                report = into_folder.restore_to_stay(wish, store, scratch, shown)
        except (NotThere, StorageFailed) as error:
            if len(assignments) == 1:
                raise
            failed += 1
            _complain(f"{folder}: {error}", 1)
            continue
        except ManifestDamaged as error:
            failed += 1
            earlier = points[: points.index(point)]
            hint = f"; the point before it: --source {folder} --at {earlier[-1]}" if earlier else ""
            _complain(f"{folder}: {error}{hint}", 1)
            continue
        failed += report.failed_files
        if options["json"]:
            _print(json.dumps({"assignment": folder, "restored": vars(report), "dry_run": options["dry_run"]}))
        else:
            at = moments.in_zone(layout.instant_of(point), zone)
            lines = showing.describe(report, dry_run=options["dry_run"])
            _print("\n".join([showing.printable(f"{title} as of {at} (point {point})"), *lines]))
    return 1 if failed else 0


def local_zone() -> tzinfo:
    """This host's time zone."""
    name = os.environ.get("TZ", "").removeprefix(":")
    try:
        if name:
            return ZoneInfo(name)
        with open("/etc/localtime", "rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return UTC


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _complain(text: str, code: int) -> int:
    sys.stderr.write(f"Error: {showing.printable(text)}\n")
    return code
