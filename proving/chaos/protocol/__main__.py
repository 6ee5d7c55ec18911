"""`python -m proving.chaos.protocol --seeds 1000`: plays the lease protocol step by step, with checks after each step.

Progress goes to standard error, the report to standard output. Exit code 0: no rule was broken; 1: one was, and its
seed and a short list of choices are printed; 2: bad arguments or no database; 130: stopped by Ctrl-C.
"""

import argparse
import hashlib
import json
import os
import secrets
import sys
from collections import Counter
from contextlib import suppress
from time import monotonic
from typing import Any

import django

from backupsched.embedded import EmbeddedDatabaseError
from external.processes.interrupts import deliver_lost_interrupts, interrupt_at_term
from proving.chaos.server import CrashingServer, make_directory, remove_directory

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "deadlock_timeout": "1h",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_connections": "60",
    "shared_buffers": "32MB",
}
"""Deadlocks are left to the simulation, since the server would end one by chance. Plans are those of large tables: with
a handful of rows the server would read them all, and a settle of plain successes would lock them in physical order."""
SAY_EVERY_SECONDS = 2.0
HASH_SEED = "0"


def main() -> int:
    options = _arguments()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:  # the order of a set must be the same in every process
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "proving.chaos.protocol", *sys.argv[1:]])  # noqa: S606
    interrupt_at_term()
    deliver_lost_interrupts()
    os.environ["DJANGO_SETTINGS_MODULE"] = "proving.chaos.protocol.settings"
    os.environ.setdefault("SECRET_KEY", secrets.token_hex())
    os.environ.pop("BACKUPSCHED_LEASE", None)
    if "SIMULATION_DATABASE" in os.environ:
        os.environ["DATABASE_URL"] = os.environ["SIMULATION_DATABASE"]
        return _simulate(options)
    directory = make_directory()
    server = CrashingServer(directory, FAST)
    try:
        server.ensure_running()
        os.environ.update(DATABASE_URL=server.url(), BACKUPSCHED_VAR=str(directory))
        return _simulate(options)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 130
    except EmbeddedDatabaseError as error:
        sys.stderr.write(f"proving.chaos.protocol: {error}\n")
        return 2
    finally:
        with suppress(EmbeddedDatabaseError):
            server.destroy()
        remove_directory(directory)


def _simulate(options: argparse.Namespace) -> int:
    django.setup()
    from proving.chaos.protocol.shrinker import shrink
    from proving.chaos.protocol.stage import set_up

    player = set_up()
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    began = printed_at = monotonic()
    played = choices = 0
    found = []
    met: Counter[str] = Counter()
    digest = hashlib.sha256()
    for seed in seeds:
        verdict = player.play(seed)
        played, choices = played + 1, choices + len(verdict.lines)
        met += verdict.met
        digest.update("\n".join([*verdict.steps, verdict.rule]).encode())
        if verdict.rule:
            sys.stderr.write(f"seed {seed}: {verdict.rule}: {verdict.text}\n")
            if options.shrink_for:
                verdict = shrink(verdict, player.play, options.shrink_for)
            found.append(verdict)
            if not options.go_on:
                break
        if monotonic() - printed_at >= SAY_EVERY_SECONDS:
            printed_at = monotonic()
            rate = played * 60 / (printed_at - began)
            sys.stderr.write(f"{played} of {len(seeds)} seeds, {rate:.0f} a minute, {len(found)} with a violation\n")
    seconds = monotonic() - began
    report: dict[str, Any] = {
        "seeds": played,
        "choices": choices,
        "seconds": round(seconds, 1),
        "seeds_per_minute": round(played * 60 / seconds),
        "met": dict(met.most_common()),
        "digest": digest.hexdigest()[:16],
        "violations": [
            {"seed": v.seed, "rule": v.rule, "text": v.text, "choices": v.lines, "steps": v.steps} for v in found
        ],
    }
    sys.stdout.write(f"{json.dumps(report, indent=2) if options.json else _text(report)}\n")
    return 1 if found else 0


def _text(report: dict[str, Any]) -> str:
    lines = [
        f"{report['seeds']} seeds with {report['choices']} choices in {report['seconds']} s "
        f"({report['seeds_per_minute']} seeds a minute): {len(report['violations']) or 'no'} violations",
        "met: " + ", ".join(f"{count} {name}" for name, count in report["met"].items()),
    ]
    for each in report["violations"]:
        lines += [
            "",
            f"seed {each['seed']}: {each['rule']}",
            f"  {each['text']}",
            f"  after {len(each['choices'])} choices (again: --seed {each['seed']}), with the deed of each thread:",
            *(f"    {number:2} {line}" for number, line in enumerate(each["steps"], 1)),
        ]
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m proving.chaos.protocol", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=1000, help="number of seeds to play (1000)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--seed", type=int, help="play this seed again")
    parser.add_argument("--go-on", action="store_true", help="do not end at the first violation")
    parser.add_argument(
        "--shrink-for", type=float, default=20.0, help="seconds to spend on shortening a failing seed (20)"
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error("--seeds is a number from 1 on")
    if options.shrink_for < 0:
        parser.error("--shrink-for is a number of seconds, 0 or more")
    return options


if __name__ == "__main__":
    sys.exit(main())
