"""`python -m proving.bench [PART…]`: measure the backlog next to its peers. See proving/bench/README.md."""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from backupsched.embedded import EmbeddedDatabaseError
from external.processes.interrupts import deliver_lost_interrupts, interrupt_at_term
from proving.bench.contestants import CONTESTANTS
from proving.bench.machine import facts
from proving.bench.parts import PARTS
from proving.bench.report import as_json, show
from proving.bench.results import Results
from proving.bench.server import running_server
from proving.bench.stage import BenchOptions, Stage

QUICK = BenchOptions(
    repeats=1,
    jobs=5_000,
    others=50_000,
    letters=20,
    capped_jobs=300,
    claims=200,
    memory_jobs=40_000,
    assignments=10_000,
    events=10_000,
    decisions=150,
    absent=150,
    crowd=300,
    arrivals=8,
    poison=200,
    batches=2,
    outage_jobs=40,
    files=500,
    sources=2_000,
    hardest_only=True,
    slow_share=0.1,
)
NUMBERS = (
    "repeats",
    "jobs",
    "others",
    "assignments",
    "events",
    "absent",
    "poison",
    "files",
    "minutes",
    "sources",
    "kept",
)
FULL_CAPPED_JOBS = 100_000
WIDTH_OF_A_FILE = 110


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m proving.bench", description="Measure the backlog next to its peers."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; default: all")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument(
        "--repeats", type=positive, help="how often everything is measured, contestants in turn (default 3)"
    )
    parser.add_argument("--jobs", type=positive, help="jobs in a drain (default 20,000)")
    parser.add_argument(
        "--others", type=natural, help="jobs ready behind them or waiting next to them (default 1,000,000)"
    )
    parser.add_argument("--assignments", type=positive, help="assignments due at once (default 100,000)")
    parser.add_argument("--events", type=positive, help="events in one batch (default 100,000)")
    parser.add_argument("--absent", type=positive, help="sources that do not answer (default 700)")
    parser.add_argument("--poison", type=positive, help="records that can never succeed (default 10,000)")
    parser.add_argument("--files", type=positive, help="files in a backup (default 10,000 of 100 kB)")
    parser.add_argument(
        "--sources", type=positive, help="sources of the largest fleet whose pages are opened (100,000)"
    )
    parser.add_argument(
        "--largest-only", action="store_true", help="only that fleet, without those a tenth and less of its size"
    )
    parser.add_argument("--surfaces", metavar="WORD,…", help="only pages and commands whose names contain one of these")
    parser.add_argument(
        "--kept", type=Path, metavar="DIRECTORY", help="where the server and its fleets are kept for the next run"
    )
    parser.add_argument("--minutes", type=positive, help="minutes after which no repeat begins (default 30)")
    parser.add_argument("--only", metavar="NAME,…", help=f"of {', '.join(CONTESTANTS)}")
    parser.add_argument(
        "--quick", action="store_true", help="little of everything, in three minutes; no figures to quote"
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="100,000 capped jobs; every peer next to the million; many small and few large files",
    )
    parsed = parser.parse_args(arguments)
    if unknown := set(parsed.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    parsed.only = frozenset(filter(None, (parsed.only or "").split(",")))
    if unknown := parsed.only - set(CONTESTANTS):
        parser.error(f"there is no contestant {', '.join(sorted(unknown))}; there are {', '.join(CONTESTANTS)}")
    return parsed


def positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{value} is not above 0")
    return value


def natural(text: str) -> int:
    if (value := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"{value} is below 0")
    return value


def options_of(parsed: argparse.Namespace) -> BenchOptions:
    options = QUICK if parsed.quick else BenchOptions()
    given = {name: value for name in NUMBERS if (value := getattr(parsed, name)) is not None}
    if parsed.full:
        given.update(capped_jobs=FULL_CAPPED_JOBS, capped_repeats=1, all_beside_others=True, all_shapes=True)
    surfaces = tuple(filter(None, (parsed.surfaces or "").split(",")))
    return replace(options, only=parsed.only, surfaces=surfaces, largest_only=parsed.largest_only, **given)


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 when a contestant failed, overshot its cap, or did a job twice or not at all."""
    parsed = parse(arguments)
    # ends as ctrl-C does: workers stopped, server stopped, files removed
    interrupt_at_term()
    deliver_lost_interrupts()
    results, began = Results(), time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - began:5.0f} s] {text}\n")
        sys.stderr.flush()

    try:
        with running_server(parsed.kept) as server:
            stage = Stage(server, options_of(parsed), results, say)
            found = facts(server)
            for part in parsed.parts or PARTS:
                PARTS[part](stage)
    except EmbeddedDatabaseError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 130
    if parsed.json:
        sys.stdout.write(json.dumps(as_json(found, results), indent=2) + "\n")
    else:
        console = Console()
        show(console if console.is_terminal else Console(width=WIDTH_OF_A_FILE), found, results)
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
