"""The kind `backup`: which handler runs its records in each queue, and what belongs to it beside that.

queue availability   `asking.ask_source`     answers → handed to the execution units; silent → woken or asked later
queue arrivals       the same                what has just checked in, asked for some seconds
queue backups        `copying.copy_source`   an engine copies, in an execution unit
settle               `written.write_down`    in the settle's own transaction, so a lost attempt changes nothing
"""

from jobs.handlers import Kind, registry
from schedules.providers import add_provider
from sources import alerts, planning, tokens
from sources.availability_check import ask_source
from sources.backup_handler import copy_source
from sources.results import write_down


def register() -> None:
    """Tell the backlog about backups."""
    registry.add(
        Kind(
            planning.KIND,
            home_queue=planning.AVAILABILITY,
            after_settle=write_down,
            next_opening=planning.next_openings,
        )
    )
    add_provider("assignments", planning.emit_batches, catch_up=planning.catch_up)
    registry.add_periodic(alerts.look)
    registry.add_periodic(tokens.prune)
    for queue in (planning.ARRIVALS, planning.AVAILABILITY):
        registry.handler(planning.KIND, queue=queue)(ask_source)
    registry.handler(planning.KIND, queue=planning.BACKUPS)(copy_source)
