"""Sets up a process: the database, the clocks, the waits and the places of the simulation."""

import logging
import sys
import threading
import warnings
from typing import Any, cast

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from psycopg.conninfo import make_conninfo

from jobs.handlers import registry
from jobs.worker import process
from proving.chaos.protocol import baton, kinds, places, waits
from proving.chaos.protocol.clocks import Clocks
from proving.chaos.protocol.monitor import LINGERING_TOKENS, Monitor
from proving.chaos.protocol.play import Player

NEVER = 1e9
REMEMBERING = ("jobs", "schedules", "operations")
"""The layers that a seed plays: their caches would let a seed depend on earlier ones."""


def set_up() -> Player:
    """Set up everything that a seed needs, in a process whose Django uses `proving.chaos.protocol.settings`."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    database = settings.DATABASES["default"]
    monitor = Monitor(
        make_conninfo(
            host=database["HOST"], port=database["PORT"], user=database["USER"], password=database["PASSWORD"],
            dbname=database["NAME"],
        )
    )  # fmt: skip
    monitor.prepare()
    if monitor.rows("SELECT FROM (SELECT to_regclass('jobs_attempt') AS found) AS it WHERE found IS NULL"):
        call_command("migrate", verbosity=0)
        connection.close()
    monitor.execute(LINGERING_TOKENS)
    clocks = Clocks(monitor)
    clocks.install()
    waits.install()
    places.install()
    kinds.register()
    registry.periodic.clear()
    registry.rare.clear()
    cast("Any", process).MINUTELY_SECONDS = NEVER
    cast("Any", threading.Thread).start = baton.start_thread
    return Player(monitor, clocks, _memories())


def _memories() -> list[Any]:
    """The caches that modules keep between calls, such as hints and totals. They are empty now, as each seed needs."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] in REMEMBERING]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, set | dict | list) and not value
    ]
