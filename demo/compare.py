"""Is a copy equal to its original? Files byte for byte; a database by a restore, table by table."""

import filecmp
import os
import subprocess
from pathlib import Path

from demo import shop


def differences(original: Path, copy: Path) -> list[str]:
    """What differs between two trees, in words; empty when every path and every byte is the same."""
    ours, theirs = _relative_files(original), _relative_files(copy)
    missing = [f"missing in the copy: {path}" for path in sorted(ours - theirs)]
    surplus = [f"only in the copy: {path}" for path in sorted(theirs - ours)]
    changed = [
        f"differs: {path}"
        for path in sorted(ours & theirs)
        if not filecmp.cmp(original / path, copy / path, shallow=False)
    ]
    return missing + surplus + changed


def _relative_files(root: Path) -> set[str]:
    return {os.path.relpath(os.path.join(folder, file), root) for folder, _, files in os.walk(root) for file in files}


def database_differences(dump: Path, where: shop.Place, pg_restore: Path) -> list[str]:
    """What differs between the shop and a restore of `dump` into a scratch database, which is dropped again."""
    with where.connect(shop.ADMINISTRATION) as server:
        server.execute(f"CREATE DATABASE {shop.SCRATCH} TEMPLATE template0")
    try:
        restored = subprocess.run(
            [
                str(pg_restore), "--exit-on-error", "--no-owner", "--host", where.host, "--port", str(where.port),
                "--username", where.user, "--dbname", shop.SCRATCH, str(dump),
            ],
            env={**os.environ, "PGPASSWORD": where.password or ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        if restored.returncode != 0:
            return [f"the dump cannot be restored: {restored.stderr.strip()[:500]}"]
        originals, copies = shop.contents(where, shop.NAME), shop.contents(where, shop.SCRATCH)
        return [
            f"table {table}: {originals.get(table)} became {copies.get(table)} (rows, digest)"
            for table in sorted(originals.keys() | copies.keys())
            if originals.get(table) != copies.get(table)
        ]
    finally:
        with where.connect(shop.ADMINISTRATION) as server:
            server.execute(f"DROP DATABASE {shop.SCRATCH} WITH (FORCE)")
