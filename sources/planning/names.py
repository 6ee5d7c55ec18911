"""Names for this app's records on the backlog."""

from typing import Any

KIND = "backup"
RETENTION = "retention"
CHECK = "check"
DRILL = "drill"
COPY = "copy"
REMOVAL = "removal"
OF_ASSIGNMENTS = (KIND, RETENTION, CHECK, DRILL, COPY)
"""Kinds whose subject is an assignment."""

LOOK = "look"
"""A look at a repository: is it there, and is the newest point of each assignment?"""
SELF_BACKUP = "self_backup"
RESTORE = "restore"
RESTORES = "restores"
"""The queue of restores."""

PING = "ping"
CALLBACKS = "callbacks"
"""The queue of pings."""

AVAILABILITY = "availability"
ARRIVALS = "arrivals"
"""The queue of sources that have just checked in, so that they wait behind no question that hangs: asked as in
AVAILABILITY, but briefly.
"""
BACKUPS = "backups"

BACK_UP_NOW_PRIORITY = 100
"""Added to the policy's priority for backups that a user or operator asked for now."""


def subject_of(assignment_id: int) -> str:
    """The subject of an assignment's backup records."""
    return f"assignment:{assignment_id}"


def subject_of_source(source_id: int) -> str:
    """The subject of lines of the log that are about a source, whatever its policies."""
    return f"source:{source_id}"


def subject_of_policy(policy_id: int) -> str:
    """The subject of lines of the log that are about all assignments of a policy."""
    return f"policy:{policy_id}"


def assignment_of(subject: str) -> int:
    """The assignment that a backup record's subject names."""
    return int(subject.partition(":")[2])


def assignment_in(payload: dict[str, Any]) -> int:
    """The id of the assignment that a backup record's payload names. 0 if another program put it there, without one, or
    with a number that no row can have.
    """
    named = payload.get("assignment")
    return named if type(named) is int and 0 < named < 2**63 else 0
