"""What can be seen without work: the settings, and whether the database has this version's tables."""

from datetime import datetime

from django.core.checks import ERROR, CheckMessage
from django.db.backends.utils import CursorWrapper

from jobs.migrated import differences
from operations.checks import check_backlog, check_database, check_periodic_tasks, check_registry
from operations.doctor.finding import Finding, listed, ok, problem, warning


def settings() -> Finding:
    """The system checks again (`operations/checks/`), the dangerous settings of django-q2 among them."""
    messages = [*check_database(), *check_backlog(), *check_registry(), *check_periodic_tasks()]
    if not messages:
        return ok("settings", "no system check complains", ids=[])
    messages.sort(key=lambda message: -message.level)
    make = problem if messages[0].level >= ERROR else warning
    return make(
        "settings",
        listed([_said(message) for message in messages], len(messages)),
        listed([str(message.hint) for message in messages], len(messages)),
        ids=[message.id for message in messages],
    )


def can_be_examined() -> bool:
    """Whether the settings are right enough to look further: the findings read them, and ask PostgreSQL."""
    return not any(message.level >= ERROR for message in (*check_database(), *check_backlog()))


def _said(message: CheckMessage) -> str:
    return f"{message.id} {message.msg}"


def migrations(cursor: CursorWrapper | None = None, now: datetime | None = None) -> Finding:
    """Whether the tables are those that this version needs. A worker refuses to start when they are not."""
    found = differences()
    names = {"missing": list(found.missing), "unknown": list(found.unknown)}
    if found.what:
        return problem("migrations", found.what, found.to_do, **names)
    return ok("migrations", "all are applied, and none of a newer version", **names)
