"""Alerts: what needs a person, and who hears of it.

conditions    what needs a person, as one statement
raising       raises alerts and ends them; announcing: tells routes, in quiet hours later, in groups
messages      what a message says; urls: where one may go
sending       a message on its way, by a process of Apprise (apart)
rounds        all of it, once a minute
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from alerting.models import AlertMessage


def undelivered() -> "QuerySet[AlertMessage]":
    """Messages whose last attempt failed: what is tried again, and what was given up in the last week."""
    from alerting import sending  # the tables are not loaded yet when this package is

    return sending.undelivered()
