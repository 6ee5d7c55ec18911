"""The project's settings on the simulation's backend, with two queues and workers that poll."""

import os

os.environ["BACKUPSCHED_WAKE"] = "poll"

from backupsched.settings import *  # noqa: F403
from backupsched.settings import DATABASES
from backupsched.settings import JOBS as USUAL

DATABASES["default"]["ENGINE"] = "proving.chaos.protocol.backend"
DATABASES["default"]["CONN_HEALTH_CHECKS"] = False
DATABASES["default"]["OPTIONS"]["options"] = "-c search_path=sim,pg_catalog,public"
JOBS = {**USUAL, "QUEUES": {"ask": {"concurrency": 3}, "work": {"concurrency": 3}}, "LEASE_SECONDS": 60}
LOGGING_CONFIG = None
