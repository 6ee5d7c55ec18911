"""The objects that django-q2's processes import by name: the job, and a broker that waits at the starting line."""

import os
from functools import cache
from pathlib import Path
from typing import Any

from django_q.brokers.orm import ORM

from proving.bench.contestants.stamps import stamper
from proving.bench.gate import Gate
from proving.bench.tally import Tally

tally = cache(lambda: Tally(Path(os.environ["BENCH_DIRECTORY"]) / "tally"))
stamp = cache(lambda: stamper(Path(os.environ["BENCH_DIRECTORY"]) / "starts"))


def job(number: int) -> None:
    if os.environ["BENCH_STAMP"]:
        stamp()(number)
    tally().take_slot()
    tally().tick()


class GatedBroker(ORM):
    """The ORM broker, whose first dequeue waits for the bench's start."""

    waited = False

    def dequeue(self) -> Any:
        if not self.waited:
            Gate(Path(os.environ["BENCH_DIRECTORY"])).wait_at()
            self.waited = True
        return super().dequeue()
