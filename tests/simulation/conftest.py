from datetime import timedelta

import pytest

from sources.models import Assignment
from tests.factories import make_worker
from tests.simulation.histories import DAYS, NOW, answered, silent
from tests.sources.factories import MONDAY, backed_up, make_policy, make_source


@pytest.fixture
def recorded(db: None) -> Assignment:
    """Ten days of a laptop that comes at nine and leaves at ten, and of a server, under one policy of midnight."""
    make_worker(queues={"availability": 9, "backups": 2}, heartbeat_at=NOW)
    policy = make_policy(cron="0 0 * * *")
    server = backed_up(policy, MONDAY - timedelta(days=1), source=make_source(name="server"))
    laptop = backed_up(policy, MONDAY - timedelta(days=1), source=make_source(name="laptop"))
    backed_up(policy, MONDAY - timedelta(days=1), source=make_source(name="never seen"))
    for day in range(DAYS):
        midnight = MONDAY + timedelta(days=day)
        answered(server, midnight + timedelta(hours=1), 600.0 + day)
        silent(laptop, midnight, midnight + timedelta(hours=8, minutes=50))
        answered(laptop, midnight + timedelta(hours=9), 1800.0)
        silent(laptop, midnight + timedelta(hours=10), midnight + timedelta(hours=23))
    return laptop
