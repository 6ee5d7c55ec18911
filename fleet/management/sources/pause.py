from argparse import ArgumentParser
from typing import Any

from declarations.surfaces import pausing
from declarations.surfaces.commands.base import TerminalCommand, caller
from external.formatting import moment
from fleet.management.base import add_names, do_each, sources_named
from jobs.conf import PROGRAM
from sources import planning
from sources.models import Source

HELP = (
    f"Pause sources: no more backups until `{PROGRAM} sources resume NAME`, or until --until. Running backups "
    "continue. Exit codes: 0; 1 when one was paused before; 2 for bad usage. For all sources under a policy: "
    f"`{PROGRAM} policies pause`; for a queue: `{PROGRAM} backlog pause`; for everything: `{PROGRAM} backlog "
    "hold`."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser)
    pausing.add_options(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    asked = pausing.asked(options)

    def pause(source: Source) -> str:
        return paused(planning.pause(Source.objects.filter(pk=source.pk), by=caller(), **asked), asked)

    do_each(command, sources_named(options["names"]), pause)


def paused(changed: int, asked: pausing.PauseArguments) -> str:
    """The effect of a pause as text. Raises: ValueError when nothing was changed."""
    if not changed:
        raise ValueError("it was paused before")
    end = f"{moment(asked['until'])} UTC" if asked["until"] else "it is resumed"
    return f"no more backups until {end}; a running one continues"
