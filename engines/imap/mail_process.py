"""The process that talks to a mail server (`external.processes.orders`), by the orders of `fetching.py`: it can be
ended, and has no more memory than an engine may have.
"""

from engines.base import RunEnded
from external.processes.serving import Program, serve

PROGRAM = Program(__name__, dict.fromkeys(("fetch", "count_folders"), "engines.imap.fetching"), {"ended": RunEnded})


def main() -> None:
    serve(PROGRAM)
