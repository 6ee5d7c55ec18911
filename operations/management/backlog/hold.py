from argparse import ArgumentParser
from typing import Any

from declarations.surfaces import pausing
from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.surfaces.terminal import one_line
from jobs import backlog
from jobs.conf import PROGRAM
from operations.hold import held, sentence

HELP = (
    "Hold everything at once, in every queue: no backup, retention, check, drill, restore or delivery starts, "
    "and running records are stopped and given back, without counting a failure. A callback that was sent may "
    f"still be answered. `{PROGRAM} backlog release` ends it, or --until; queues that were paused stay so. To "
    f"let running records end, pause their queue instead: `{PROGRAM} backlog pause backups`. Exit codes: 0; 2 "
    "for bad usage, or when the database does not answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why: every page and command shows it")
    parser.add_argument("--until", metavar="WHEN", help=pausing.UNTIL_MEANS)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    changed = backlog.hold(by=caller(), **pausing.asked(options))
    found = held()
    text = f"{sentence(found)} `{PROGRAM} backlog release` ends it." if found else "it was released at once"
    command.answer({"changed": changed, "held": bool(found), "text": text}, one_line(text))
