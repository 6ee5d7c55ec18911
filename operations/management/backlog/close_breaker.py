from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from jobs.breakers import verbs
from operations.management.backlog.breakers import add_keys, change_each

HELP = (
    "Close circuit breakers: everything that waits for them continues at the next tick. Exit codes: 0; 1 when one is "
    "not open; 2 for bad usage, or when the database does not answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_keys(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    change_each(command, options, verbs.close, "it is closed: records that wait for it continue at the next tick")
