"""Runs one command of a contestant in a separate process: `python -m proving.bench.child NAME COMMAND OPTIONS…`.

A result is printed as one line of JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

from proving.bench.contestant import Site
from proving.bench.contestants import CONTESTANTS
from proving.bench.gate import Gate
from proving.bench.tally import Tally


def run(name: str, command: str, options: dict[str, Any]) -> Any:
    """Run one command. Returns the result to print."""
    contestant = CONTESTANTS[name]
    if command != "work":
        return getattr(contestant, command)(**options)
    directory = Path(options["directory"])
    tally = Tally(directory / "tally")
    tally.take_slot()
    site = Site(options["url"], Gate(directory), tally, directory / "starts", options["workers"])
    contestant.work(site, stamp=options["stamp"])
    tally.settle()
    return None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))) + "\n")
