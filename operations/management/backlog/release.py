from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand, caller
from jobs import backlog

HELP = (
    "End the hold of everything: waiting records continue, stopped ones start again. Queues that were paused "
    "separately stay paused. Exit codes: 0, also when nothing was on hold; 2 when the database does not "
    "answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    pass


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    changed = backlog.release(by=caller())
    command.answer({"changed": changed}, "work continues" if changed else "nothing was on hold")
