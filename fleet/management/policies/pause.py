from argparse import ArgumentParser
from typing import Any

from declarations.surfaces import pausing
from declarations.surfaces.commands.base import TerminalCommand, caller
from fleet import pauses
from fleet.management.base import add_names, do_each
from fleet.management.sources.pause import paused
from fleet.policy_edits import Policies
from jobs.conf import PROGRAM
from sources.models import Policy

HELP = (
    f"Pause policies: no more backups under them until `{PROGRAM} policies resume NAME`, or until --until. Running "
    "backups continue. Exit codes: 0; 1 where one was paused before; 2 for bad usage. For some of its sources: "
    f"`{PROGRAM} sources pause`."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser, "policy")
    pausing.add_options(parser)


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    asked = pausing.asked(options)

    def pause(policy: Policy) -> str:
        return paused(pauses.pause_policy(policy, by=caller(), **asked), asked)

    do_each(command, [Policies().named(name) for name in dict.fromkeys(options["names"])], pause)
