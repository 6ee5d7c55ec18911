"""The project's settings with the queues of the storm. `ask` feeds `work` as `availability` feeds `backups`."""

from backupsched.settings import *  # noqa: F403
from backupsched.settings import JOBS as USUAL

QUEUES = {
    "ask": {"concurrency": 50, "feeds": "work"},
    "work": {"concurrency": 8},
    "quick": {"concurrency": 4},
}
JOBS = {**USUAL, "QUEUES": QUEUES}
