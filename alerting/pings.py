"""The scheduler's dead-man ping: a service (healthchecks and compatible) raises an alarm when it no longer comes.

It comes from the round of a minute, if the watch found nothing broken. A policy's comes after each of its backups
(`sources/outcomes.py`). Both by the client of callbacks, under its rules of where it may go.
"""

import asyncio
import logging

from django.conf import settings

log = logging.getLogger(__name__)


def ping_for_the_scheduler() -> None:
    """Ping, if a URL is set, and log what is wrong. Blocks for some seconds at most."""
    if not settings.PING_URL:
        return
    from delivery.http import ping  # the HTTP client takes 0.4 s, which no command should wait for

    if problem := asyncio.run(ping.get(settings.PING_URL)):
        log.warning("the dead-man ping of the scheduler did not arrive: %s", problem)
