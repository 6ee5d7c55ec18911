"""The process that answers questions about directories on this host (`external.processes.orders`): it can be killed,
since a dead share never answers. It starts in a third of the time that `engines.repository_process` takes, because it
imports less.
"""

import time
from importlib import import_module
from threading import Thread
from typing import Any

from external.processes.serving import Program, say, serve


def of_each(question: str, asked: dict[str, dict[str, Any]], seconds: float) -> dict[str, str | None]:
    """Ask a question about each of these directories, each in a separate thread: a dead share holds up no other one.
    Returns the reasons by their names in `asked`, without the directories that did not answer within `seconds`.
    """
    ask, found = getattr(import_module(PROGRAM.orders[question]), question), dict[str, str | None]()

    def answered(name: str, facts: dict[str, Any]) -> None:
        found[name] = ask(**facts)

    threads = [Thread(target=answered, args=each, daemon=True) for each in asked.items()]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    if len(known := dict(found)) < len(asked):
        say({"known": known})  # this process does not end while one of its threads sleeps in the kernel
    return known


_DIRECTORIES = "storage.places.directories"
PROGRAM = Program(
    __name__,
    {
        **dict.fromkeys(("not_usable", "not_made", "open_to_others"), _DIRECTORIES),
        "of_each": __name__,
        "not_written": "storage.folders.writing",
    },
)


def main() -> None:
    serve(PROGRAM)
