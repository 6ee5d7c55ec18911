"""Plants faults in a copy of the code, one at a time, and counts those that the simulation finds.

    python -m proving.chaos.protocol.mutants --seeds 150 [--only NAME]

A mutant is text that is replaced in a file, or in a function of the database. If that text is gone, an error names the
mutant: the protocol has changed, and so must the mutant. Exit code 0: at least NEEDED of them were found.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg

from external.processes.interrupts import deliver_lost_interrupts, interrupt_at_term
from proving.chaos.protocol.__main__ import FAST, HASH_SEED
from proving.chaos.protocol.mutant_list import MUTANTS, Mutant
from proving.chaos.server import CrashingServer, make_directory, remove_directory

NEEDED = 0.9
HERE = Path(__file__).resolve().parents[3]
COPIED = (
    "backupsched", "proving", "demo", "dashboard", "api", "alerting", "fleet", "backups", "operations", "sources",
    "schedules", "engines", "delivery", "storage", "sealing", "declarations", "audit", "jobs", "external",
    "simulation",
)  # fmt: skip


class TextGone(Exception):
    """The text that a mutant replaces is not there any more."""


def main() -> int:
    options = _arguments()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt_at_term()
    deliver_lost_interrupts()
    wanted = [mutant for mutant in MUTANTS if not options.only or options.only in mutant.name]
    directory = make_directory()
    server = CrashingServer(directory, FAST)
    try:
        server.ensure_running()
        environment = {**os.environ, "DATABASE_URL": server.url(), "BACKUPSCHED_VAR": str(directory)}
        environment |= {"PYTHONHASHSEED": HASH_SEED, "SECRET_KEY": "mutants"}
        return _plant(wanted, options.seeds, server.url(), environment, as_json=options.json)
    except KeyboardInterrupt:
        return 130
    finally:
        server.destroy()
        remove_directory(directory)


def _plant(mutants: list[Mutant], seeds: int, url: str, environment: dict[str, str], *, as_json: bool) -> int:
    ready = {**environment, "SIMULATION_DATABASE": url}
    unchanged = _simulate(HERE, seeds, ready)
    if unchanged["violations"]:
        first = unchanged["violations"][0]
        sys.stderr.write(f"the code breaks a rule without a mutant: seed {first['seed']}: {first['rule']}\n")
        return 2
    results = []
    for mutant in mutants:
        began = monotonic()
        try:
            found = _simulate_mutant(mutant, seeds, url, ready)
        except TextGone as error:
            sys.stderr.write(f"{mutant.name}: {error}\n")
            results.append({"mutant": mutant.name, "text_is_gone": True})
            continue
        violation = found["violations"][0] if found["violations"] else {}
        result = {"mutant": mutant.name, "seed": violation.get("seed"), "rule": violation.get("rule")}
        results.append(result)
        reported = f"seed {result['seed']}: {result['rule']}" if result["rule"] else f"not found in {seeds} seeds"
        sys.stderr.write(f"{mutant.name}: {reported} ({monotonic() - began:.0f} s)\n")
    count = sum(bool(result.get("seed")) for result in results)
    sys.stdout.write(
        f"{json.dumps(results, indent=2) if as_json else ''}{count} of {len(results)} mutants were found\n"
    )
    return 0 if count >= NEEDED * len(results) else 1


@contextmanager
def planted(mutant: Mutant) -> Iterator[Path]:
    """Copy the code with the changes of `mutant` to files. Yields the folder. Raises: TextGone."""
    with tempfile.TemporaryDirectory(prefix="backupsched-mutant-") as name:
        place = Path(name)
        for package in COPIED:
            shutil.copytree(HERE / package, place / package)  # with compiled files: a mutant changes one or two
        for file, old, new in mutant.changes:
            _replace(place / file, old, new)
        yield place


def _simulate_mutant(mutant: Mutant, seeds: int, url: str, environment: dict[str, str]) -> dict[str, Any]:
    with planted(mutant) as place:
        before = _replace_function(url, mutant)
        try:
            return _simulate(place, seeds, environment)
        finally:
            _execute(url, before)


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if old not in text:
        raise TextGone(f"{path.name} does not say any more: {old.strip().splitlines()[0]}")
    path.write_text(text.replace(old, new, 1))


def _replace_function(url: str, mutant: Mutant) -> list[str]:
    """Replace text in functions of the database. Returns the statements that restore them."""
    originals = []
    for function, old, new in mutant.functions:
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute("SET search_path = sim, pg_catalog, public")
            row = connection.execute("SELECT pg_get_functiondef(%s::regproc)", [function]).fetchone()
        text = str(row[0]) if row else ""
        if old not in text:
            raise TextGone(f"{function} does not say any more: {old}")
        originals.append(text)
        _execute(url, [text.replace(old, new)])
    return originals


def _execute(url: str, statements: list[str]) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("SET search_path = sim, pg_catalog, public")
        for statement in statements:
            connection.execute(statement.encode())


def _simulate(place: Path, seeds: int, environment: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "proving.chaos.protocol", "--seeds", str(seeds), "--shrink-for", "0", "--json"]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        last = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        return {"violations": [{"seed": None, "rule": f"the simulation does not begin: {last[0]}"}]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m proving.chaos.protocol.mutants", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=150, help="number of seeds to play for each mutant (150)")
    parser.add_argument("--only", default="", help="only mutants whose name contains this")
    parser.add_argument("--json", action="store_true", help="the results as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
