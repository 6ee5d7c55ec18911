#!/usr/bin/env python
"""Run a management command: `python manage.py help` lists them."""

import os
import sys

UNDEFINED = ("42P01", "42703")
"""PostgreSQL's codes for a table and for a column that does not exist."""


def main() -> int:
    """Run the command line. Returns the exit code: 2 when the installation itself is at fault."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backupsched.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db.utils import OperationalError, ProgrammingError

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    except OperationalError as error:
        if error.__cause__ is None or getattr(error.__cause__, "sqlstate", None):
            raise
        sys.stderr.write(f"Error: {_unreachable(str(error))}\n")
        return 2
    except BrokenPipeError:
        # the reader of our output has had enough (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ProgrammingError as error:
        if "invalid connection option" in str(error):
            sys.stderr.write(f"Error: DATABASE_URL has an unknown option: {str(error).splitlines()[0]}\n")
            return 2
        if getattr(error.__cause__, "sqlstate", None) not in UNDEFINED:
            raise
        what = str(error).splitlines()[0]
        sys.stderr.write(f"Error: the database is not migrated ({what}). Run `manage.py migrate` first.\n")
        return 2
    return 0


def _unreachable(reason: str) -> str:
    """What to say when the database does not answer. Names the place, never the password."""
    from django.conf import settings

    database = settings.DATABASES["default"]
    place = f"{database['NAME']!r} at {database['HOST'] or 'the local socket'}:{database['PORT'] or 5432}"
    first_line = reason.strip().splitlines()[0] if reason.strip() else "no answer"
    what_to_do = (
        "See `manage.py database status`."
        if "EMBEDDED_IN" in database
        else "Check DATABASE_URL, and that the server runs; unset it to use the embedded one."
    )
    return f"the database {place} does not answer: {first_line}\n{what_to_do}"


if __name__ == "__main__":
    sys.exit(main())
