from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand
from jobs.breakers import verbs
from operations.management.backlog.breakers import add_keys, change_each

HELP = (
    "Let one record through each of these open breakers as a trial. Exit codes: 0; 1 when one is not open; 2 for bad "
    "usage, or when the database does not answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_keys(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    done = "a trial is let through at the next tick, unless one is under way"
    change_each(command, options, verbs.probe_now, done)
