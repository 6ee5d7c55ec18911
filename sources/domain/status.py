"""How well a source or an assignment is protected, as one word: the same in the admin, the API, commands, agents and
metrics. `fleet/status.py` finds it from rows.
"""

from enum import StrEnum


class Status(StrEnum):
    """The worst first, as lists sort them."""

    FAILING = "failing"
    """Its last attempt failed."""
    OVERDUE = "overdue"
    """It has a backup, but none for too long."""
    NEVER = "never"
    """It has no backup yet."""
    DOUBTFUL = "doubtful"
    """Its backups may be no good: a check found damage in them, a drill could not restore them, the last one looked
    wrong, or they are not where they were: a look missed the newest one, or all of their repository."""
    UNPROTECTED = "unprotected"
    """It is in no policy, or in none that is enabled."""
    ABSENT = "absent"
    """It is due and did not answer; it is asked again."""
    WAITING = "waiting"
    """It is due, and its record waits: for its window, a throttle, a breaker."""
    DUE = "due"
    """Its next-backup date has come, or an operator asked for a backup now."""
    RUNNING = "running"
    """It is being copied."""
    PROTECTED = "protected"
    """Its next-backup date is in the future."""
    PAUSED = "paused"
    """An operator or its user wants no backups of it at present."""
    RETIRED = "retired"
    """An operator wants no more backups of it; it is in no count."""

    @property
    def rank(self) -> int:
        """The worst is 0."""
        return RANKS[self]


BY_RANK = tuple(Status)
RANKS = {status: rank for rank, status in enumerate(BY_RANK)}

PRECEDENCE = (
    Status.FAILING,
    Status.OVERDUE,
    Status.NEVER,
    Status.DOUBTFUL,
    Status.RUNNING,
    Status.ABSENT,
    Status.WAITING,
    Status.DUE,
    Status.PROTECTED,
)
"""The statuses of an active assignment, and of a source over its assignments: the first that holds counts."""

NEEDS_A_PERSON = frozenset({Status.FAILING, Status.OVERDUE, Status.NEVER, Status.DOUBTFUL, Status.UNPROTECTED})

NOT_COUNTED = frozenset({Status.PAUSED, Status.RETIRED})
"""Neither protected nor in need."""

COLOURS: dict[Status, str] = (
    dict.fromkeys(NEEDS_A_PERSON, "danger")
    | dict.fromkeys((Status.ABSENT, Status.WAITING, Status.DUE), "warning")
    | {Status.RUNNING: "info", Status.PROTECTED: "success", Status.PAUSED: "", Status.RETIRED: ""}
)
"""Status → the name of the theme's label."""
