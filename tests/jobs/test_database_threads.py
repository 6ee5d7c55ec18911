"""A handler's question to the database that waits for a lock holds up no other queue, and not its own for long."""

import asyncio
from collections.abc import Iterator

import pytest
from django.db import OperationalError, transaction

from jobs.database_errors import is_busy
from jobs.models import Worker
from jobs.worker import database_threads
from jobs.worker.database_threads import THREADS, ask_database
from tests.factories import make_worker
from tests.threads import another_connection
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)

WAITING = THREADS + 1


@pytest.fixture(autouse=True)
def _queues() -> Iterator[None]:
    for queue in ("one", "other"):
        database_threads.open_for(queue)
    yield
    for queue in ("one", "other"):
        database_threads.close_for(queue)


def lock() -> int:
    with transaction.atomic():
        return Worker.objects.select_for_update().get().pk


def lock_all() -> "list[asyncio.Task[int]]":
    return [asyncio.create_task(ask_database("one", lock)) for _ in range(WAITING)]


def test_a_lock_is_waited_for_in_the_threads_of_one_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_threads, "LOCK_SECONDS", PATIENCE)
    worker = make_worker()

    async def ask_beside() -> list[int]:
        with another_connection() as holder:
            holder.execute("SELECT FROM jobs_worker FOR UPDATE")
            locking = lock_all()
            await asyncio.sleep(0)  # all of them are asked first
            assert await ask_database("other", lambda: Worker.objects.get().pk) == worker.pk
            assert not any(each.done() for each in locking)
        return await asyncio.gather(*locking)

    assert asyncio.run(ask_beside()) == [worker.pk] * WAITING


def test_it_is_given_up_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_threads, "LOCK_SECONDS", 0.1)
    make_worker()

    async def ask() -> list[object]:
        return list(await asyncio.gather(*lock_all(), return_exceptions=True))

    with another_connection() as holder:
        holder.execute("SELECT FROM jobs_worker FOR UPDATE")
        refused = asyncio.run(ask())
    assert [type(error) for error in refused] == [OperationalError] * WAITING
    assert all(is_busy(error) for error in refused if isinstance(error, BaseException))
