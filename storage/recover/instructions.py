"""`RECOVER.txt`: a description of a repository, and instructions for getting files out of it with plain rclone.

Each command in it is on separate, indented lines, and all of them together are a shell script, which a test runs.
"""

import shlex
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from storage import layout
from storage.places import identity
from storage.places.identity import Identity
from storage.places.location import Location
from storage.points import runs
from storage.points.store import StorageFailed, Store

TYPE = "RCLONE_CONFIG_BASE_TYPE"
LOST = layout.LOST


def keep_current(
    store: Store, ours: Identity | None = None, *, made: bool = False, folder: str = "", newest: str = ""
) -> None:
    """Write `RECOVER.txt` if it is missing or differs, and the identity of the repository if it has none. `made`: True
    if the identity was there before. An identity that is damaged or lost since is written again only if `newest`, a
    point that the scheduler has made there, is in the `folder` of its assignment: neither an empty mount point nor a
    repository of another installation has that.

    Raises: StorageFailed, also for a repository of another installation, layout version or key, or one that has lost
    its identity, before anything is written; StorageStopped, OSError.
    """
    if not store.location.keeps_files:
        return
    text, outside = text_of(store.location), replace(store, location=store.location.bare)

    def is_known() -> bool:
        with suppress(StorageFailed):  # such as restic's error, on a mount point
            return made and newest in runs.points(store, folder)
        return False

    if not _has_identity(outside, ours, is_known) and ours:
        if made and not is_known():
            raise StorageFailed(
                f"{LOST.format(outside.location.outside)} If that disk was replaced, name another folder of the new "
                "one as its location"
            )
        identity.write(outside, ours)
    with tempfile.TemporaryDirectory() as scratch:
        written, file = Path(scratch) / "found", Path(scratch) / layout.RECOVER
        if (is_there := outside.fetch(layout.RECOVER, written)) and written.read_bytes() == text.encode():
            return
        file.write_bytes(text.encode())
        # credentials that may not overwrite leave the one of an earlier version
        with suppress(StorageFailed) if is_there else nullcontext():
            outside.put_over(file, layout.RECOVER)


def check_place(store: Store, ours: Identity, folder: str) -> None:
    """Check that a repository is the expected one, before anything is concluded from what it lacks: neither a mount
    point without its disk nor a folder that another key opens has any points. One whose identity is lost or damaged
    counts if a known point is in the `folder` of an assignment.

    Raises: StorageFailed, also for a repository of another installation, layout version or key.
    """
    if not store.location.keeps_files:
        return

    def is_known() -> bool:
        return bool(runs.points(store, folder))

    if not _has_identity(replace(store, location=store.location.bare), ours, is_known) and not is_known():
        raise StorageFailed(LOST.format(store.location.outside))


def check_is_ours(store: Store, ours: Identity) -> None:
    """Raises: StorageFailed if a repository has no identity, or not that of `ours`."""
    if store.location.keeps_files and not _has_identity(replace(store, location=store.location.bare), ours):
        raise StorageFailed(
            f"{LOST.format(store.location.outside)} If its files are gone for good, cancel this, and delete without "
            "the files"
        )


def _has_identity(outside: Store, ours: Identity | None, may_be_damaged: Callable[[], bool] = lambda: False) -> bool:
    """True if a repository has an identity. Raises: StorageFailed if that is not `ours`."""
    try:
        if (found := identity.read(outside)) and ours:
            identity.check(found, ours)
    except identity.RepositoryRefused as error:
        if isinstance(error, identity.UnreadableIdentity) and may_be_damaged():
            return False
        raise StorageFailed(str(error)) from None
    return found is not None


def text_of(location: Location) -> str:
    """The text of `RECOVER.txt`. It has only the names of a remote's settings, since their values may be secrets."""
    if location.is_restic:
        inner = location.environment["RESTIC_REPOSITORY"]
        return RESTIC_TEXT.format(
            where=_where(location), version=layout.VERSION, inner=shlex.quote(inner), databases=DATABASES
        )
    return TEXT.format(
        version=layout.VERSION,
        also=", the key of this repository" if location.is_encrypted else "",
        where=_where(location),
        inside=INSIDE if location.is_encrypted else PLAIN,
        manifests=layout.MANIFESTS,
        ending=layout.MANIFEST_ENDING,
        files=layout.FILES,
        databases=DATABASES,
    )


def _where(location: Location) -> str:
    if location.directory is not None:
        return f"    REPOSITORY={shlex.quote(location.outside)}"
    names = (name for name in location.environment if name.startswith("RCLONE_CONFIG_BASE_"))
    settings = [
        f"    export {name}={shlex.quote(location.environment[name] if name == TYPE else '...')}"
        for name in sorted(names, key=lambda name: (name != TYPE, name))
    ]
    return "\n".join([*settings, f"    REPOSITORY={shlex.quote(location.outside)}"])


DATABASES = """\
   A database is now a file database.dump, with globals.sql next to it: run `psql --dbname=postgres --file=globals.sql`
   on the new server, then `pg_restore --create --dbname=postgres database.dump`. A database.sqlite is the database
   itself. A database.sql goes into a new database: `mariadb --binary-mode NAME < database.sql`, globals.sql before it.
   What opens them: database.dump, pg_restore of at least the version of the pg_dump that wrote it (PostgreSQL 18's
   opens all up to 18); database.sql, the client mariadb (tested: 10.11); database.sqlite, sqlite3 or any program with
   SQLite 3.
"""

RESTIC_TEXT = """\
These are backups, made by backupsched (layout version {version}) with restic. The steps below get files out of them
without it and without its database. They need only restic (0.14 or later, https://restic.net), for a remote also rclone
(https://rclone.org/install/), the key of this repository and a shell. They change nothing here.

1. Where this repository is. Correct what has changed since; passwords go through `rclone obscure -`.

{where}
    export RESTIC_REPOSITORY={inner}
    export RESTIC_PASSWORD_FILE='/the/file/that/holds/the/key'

2. Which points in time there are: each is a snapshot, whose tags name what it belongs to. Choose one: SNAPSHOT is its
   ID; latest is the newest of all. One with a tag incomplete=POINT has a file that names what that point lacks.

    restic snapshots --no-lock
    SNAPSHOT=latest

3. Get that point, with all of its files as they were, into a new folder TO.

    TO='/restored'
    restic restore --no-lock "$SNAPSHOT" --target "$TO"

{databases}"""

PLAIN = '''    FILES="$REPOSITORY/"'''
INSIDE = f"""    KEY_FILE='/the/file/that/holds/the/key'
    export RCLONE_CONFIG_CRYPT_TYPE=crypt
    export RCLONE_CONFIG_CRYPT_REMOTE="$REPOSITORY/{layout.ENCRYPTED}"
    export RCLONE_CONFIG_CRYPT_PASSWORD="$(rclone obscure - < "$KEY_FILE")"
    FILES=crypt:"""

TEXT = """\
These are backups, made by backupsched (layout version {version}). The steps below get files out of them without it and
without its database. They need only rclone (1.66 or later, https://rclone.org/install/), python3{also}
and a shell. They change nothing here.

1. Where this repository is. Correct what has changed since; passwords go through `rclone obscure -`.

{where}
{inside}

2. Which sources there are, each under a policy. Choose one: SOURCE.

    rclone lsf --dirs-only --recursive --max-depth 2 "$FILES"
    SOURCE='nas-7/nightly'

3. Its points in time: each has a manifest. Choose one: POINT is the name before {ending}, in UTC. TO is a new
   folder, into which that point is restored.

    rclone lsf "$FILES$SOURCE/{manifests}"
    POINT='20261121T065755Z'
    TO='/restored'

4. What that point holds: size, time and path. Its manifest is a gzip file of JSON lines, one for each file, link and
   folder, with its mode, owner, SHA-256 digest and everything else that is known about it.

    mkdir -p "$TO"
    rclone copyto "$FILES$SOURCE/{manifests}/$POINT{ending}" "$TO.jsonl.gz"
    gunzip -c "$TO.jsonl.gz" | sed -n \\
        's/^{{"path":"\\(.*\\)","kind":"\\([a-z]*\\)","size":\\([0-9]*\\),*\\("modified":"[^"]*"\\)*.*/\\3 \\4 \\1/p'

5. Get its files. Each is stored below {files}/, in the folder of the run that brought it (`folder` in its line), under
   its own path, or under the name in `stored`. To get single files, leave only their lines in "$TO.list". If this
   repository's disk changes names (folds case, or decomposes accents), use `rclone copy --no-traverse`. The first
   command ends with a message if the manifest is another point's, which someone has put there, or lacks lines.

    python3 -c 'if True:
        import gzip, hashlib, json, sys
        began = json.loads(gzip.open(sys.argv[1]).readline())["started_at"][:19].translate({{45: "", 58: ""}})
        second, _, number = sys.argv[2].partition("Z")
        if began > second or ("" < began < second and not number):
            sys.exit("this is the manifest of another point, whose run began at " + began)
        digest, last = hashlib.sha256(), b""
        for line in gzip.open(sys.argv[1]):
            digest.update(last)
            last = line
        if json.loads(last).get("sha256") != digest.hexdigest():
            sys.exit("this manifest is not as it was written: what follows brings only what it still names")
    ' "$TO.jsonl.gz" "$POINT"
    export PYTHONUTF8=1
    python3 -c 'if True:
        import gzip, json, sys
        for line in gzip.open(sys.argv[1], "rt", encoding="utf-8", errors="surrogatepass"):
            entry = json.loads(line)
            if entry.get("folder"):
                print(entry["folder"] + "/" + entry.get("stored", entry["path"]))
    ' "$TO.jsonl.gz" | sort -u > "$TO.list"
    rclone copy --files-from-raw "$TO.list" "$FILES$SOURCE/{files}" "$TO.parts"

6. Give them their true names, make folders and links, and set modes and times. This prints what the point does not
   have, and what is not as it was backed up, by size and digest. It does not restore owners and groups (`uid`, `gid`,
   and their names in the first line of the manifest), extended attributes, ACLs and capabilities (`attributes`, in
   base64), or set-user-ID bits.

    python3 -c 'if True:
        import calendar, gzip, hashlib, json, os, re, shutil, sys, time
        manifest, parts, to = sys.argv[1:]
        def shown(match):  # rclone shows control characters as pictures of them, and bytes that are not UTF-8 as hex
            if match[1]:
                return chr(0xdc00 + int(match[1], 16))
            return match[2] or ("\\x7f" if match[3] == "\\u2421" else chr(ord(match[3]) - 0x2400))
        names = "\\u201b(?:([89A-F][0-9A-F])|([\\u201b\\u2400-\\u2421]))|([\\u2401-\\u241f\\u2421])"
        def below(folder, path):
            if ".." in path.split("/") or path.startswith("/"):
                sys.exit("not a path: " + path)
            return os.path.join(folder, re.sub(names, shown, path))
        def finish(entry, path):
            if entry.get("mode") is not None and not os.path.islink(path):
                os.chmod(path, entry["mode"] & 0o777)
            if entry.get("modified"):
                seconds, _, rest = entry["modified"].rstrip("Z").partition(".")
                at = calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int((rest + "0" * 9)[:9])
                os.utime(path, ns=(at, at), follow_symlinks=False)
        def is_as_it_was(entry, path):
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                while piece := file.read(2**20):
                    digest.update(piece)
            return os.path.getsize(path) == entry["size"] and entry.get("digest") in (None, digest.hexdigest())
        def entries():
            for line in gzip.open(manifest, "rt", encoding="utf-8", errors="surrogatepass"):
                if "path" in (entry := json.loads(line)):
                    yield entry, below(to, entry["path"])
        came, later = {{}}, []
        for entry, path in entries():
            place = entry.get("folder", "-") + "/" + entry.get("stored", entry["path"])
            part = below(parts, place)
            try:
                os.makedirs(path if entry["kind"] == "folder" else os.path.dirname(path), exist_ok=True)
                os.stat(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                where = "; its content is in " + part if os.path.isfile(part) else ""
                print("not brought:", entry["path"], "since:", error.strerror + where)
                continue
            if entry["kind"] != "file":
                later.append((entry, path))
            elif os.path.lexists(path):
                print("there already, and left as it is:", entry["path"])
            elif place in came and entry.get("linked"):
                os.link(came[place], path)
            elif place in came or os.path.isfile(part):
                shutil.copyfile(came[place], path) if place in came else os.replace(part, path)
                if not is_as_it_was(entry, path):
                    print("not as it was backed up:", entry["path"])
                finish(entry, path)
                came[place] = path
            else:
                print("missing:", entry["path"], entry.get("why", ""))
        for entry, path in later:
            if entry["kind"] == "link" and not os.path.lexists(path):
                os.symlink(entry["target"], path)
        for entry, path in reversed(later):
            if os.path.lexists(path):
                finish(entry, path)
    ' "$TO.jsonl.gz" "$TO.parts" "$TO"

{databases}"""
