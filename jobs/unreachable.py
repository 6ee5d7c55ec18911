"""What is said of a database that does not answer, or is not made for what asks it: the same words everywhere."""

from django.conf import settings
from django.db.utils import Error

from jobs.database_errors import code_of, is_away

UNDEFINED = ("42P01", "42703")
"""PostgreSQL's codes for a table and for a column that does not exist."""


def describe(error: Error) -> str:
    """What is wrong and what to do, without a password. Empty: the database answered, and it is none of these."""
    if code_of(error) in UNDEFINED:
        return f"the database is not migrated ({_first_line(error)}). Run `manage.py migrate` first."
    if "invalid connection option" in str(error):
        return f"the connection to the database has an unknown option: {_first_line(error)}\n{_what_to_do()}"
    return describe_away(error) if error.__cause__ is not None and is_away(error) else ""


def describe_away(error: Error) -> str:
    """That the database does not answer: names the place, never the password."""
    database = settings.DATABASES["default"]
    place = f"{database['NAME']!r} at {database['HOST'] or 'the local socket'}:{database['PORT'] or 5432}"
    return f"the database {place} does not answer: {_first_line(error)}\n{_what_to_do()}"


def _what_to_do() -> str:
    """A project may have words of its own for it."""
    usual = "Check the setting DATABASES, and that the server runs."
    return str(settings.DATABASES["default"].get("WHEN_AWAY", usual))


def _first_line(error: Error) -> str:
    return next(iter(str(error).strip().splitlines()), "no answer")
