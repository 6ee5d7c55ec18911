"""A handler's question to the database that waits for a lock holds up no other queue, and not its own for long."""

import asyncio

import pytest
from django.db import OperationalError, transaction

from jobs.database_errors import is_busy
from jobs.models import Worker
from jobs.worker import database_threads
from jobs.worker.database_threads import THREADS, ask_database
from tests.factories import make_worker
from tests.threads import another_connection


@pytest.mark.django_db(transaction=True)
def test_a_lock_is_waited_for_in_the_threads_of_one_queue_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_threads, "LOCK_SECONDS", 0.5)
    worker = make_worker()
    waiting = THREADS + 1

    def lock() -> int:
        with transaction.atomic():
            return Worker.objects.select_for_update().get(pk=worker.pk).pk

    async def both() -> tuple[int, list[object]]:
        locking = [asyncio.ensure_future(ask_database("one", lock)) for _ in range(waiting)]
        found = await ask_database("other", lambda: Worker.objects.get(pk=worker.pk).pk)
        assert not any(each.done() for each in locking)
        return found, list(await asyncio.gather(*locking, return_exceptions=True))

    for queue in ("one", "other"):
        database_threads.open_for(queue)
    try:
        with another_connection() as other:
            other.execute("SELECT FROM jobs_worker WHERE id = %s FOR UPDATE", [worker.pk])
            found, refused = asyncio.run(both())
    finally:
        for queue in ("one", "other"):
            database_threads.close_for(queue)
    assert found == worker.pk
    assert [type(error) for error in refused] == [OperationalError] * waiting
    assert all(is_busy(error) for error in refused if isinstance(error, BaseException))
