"""The protection of a source or an assignment, as one word: the same in the admin, the API, commands, agents and
metrics. `fleet/status/` finds it from rows.
"""

from enum import StrEnum


class ProtectionStatus(StrEnum):
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


BY_RANK = tuple(ProtectionStatus)
RANKS = {status: rank for rank, status in enumerate(BY_RANK)}

PRECEDENCE = (
    ProtectionStatus.FAILING,
    ProtectionStatus.OVERDUE,
    ProtectionStatus.NEVER,
    ProtectionStatus.DOUBTFUL,
    ProtectionStatus.RUNNING,
    ProtectionStatus.ABSENT,
    ProtectionStatus.WAITING,
    ProtectionStatus.DUE,
    ProtectionStatus.PROTECTED,
)
"""The statuses of an active assignment, and of a source over its assignments: the first that holds counts."""

NEEDS_OPERATOR = frozenset(
    {
        ProtectionStatus.FAILING,
        ProtectionStatus.OVERDUE,
        ProtectionStatus.NEVER,
        ProtectionStatus.DOUBTFUL,
        ProtectionStatus.UNPROTECTED,
    }
)

NOT_COUNTED = frozenset({ProtectionStatus.PAUSED, ProtectionStatus.RETIRED})
"""Neither protected nor in need."""

COLOURS: dict[ProtectionStatus, str] = (
    dict.fromkeys(NEEDS_OPERATOR, "danger")
    | dict.fromkeys((ProtectionStatus.ABSENT, ProtectionStatus.WAITING, ProtectionStatus.DUE), "warning")
    | {
        ProtectionStatus.RUNNING: "info",
        ProtectionStatus.PROTECTED: "success",
        ProtectionStatus.PAUSED: "",
        ProtectionStatus.RETIRED: "",
    }
)
"""Status → the name of the theme's label."""
