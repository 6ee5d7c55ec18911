from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import TerminalCommand, caller
from fleet import pauses
from fleet.management.base import add_names, do_each
from fleet.management.sources.resume import resumed
from fleet.policy_edits import Policies
from sources.models import Policy

HELP = (
    "Back up under paused policies again; due sources at once. Exit codes: 0; 1 where one was not paused; 2 for bad "
    "usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_names(parser, "policy")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    def resume(policy: Policy) -> str:
        return resumed(pauses.resume_policy(policy, by=caller()))

    do_each(command, [Policies().named(name) for name in dict.fromkeys(options["names"])], resume)
