"""The no-op job of django-tasks, which finds it by the name of its module."""

from collections.abc import Callable

from django_tasks import task

from proving.bench.contestant import Site
from proving.bench.contestants.stamps import stamper

_called: list[Callable[[int], None]] = []


def work_for(site: Site, *, stamp: bool) -> None:
    """Let this worker's jobs tick, and record their starts if `stamp` is set."""
    write = stamper(site.starts)

    def called(number: int) -> None:
        if stamp:
            write(number)
        site.tally.tick()

    _called.append(called)


@task()
def job(number: int) -> None:
    for call in _called:
        call(number)
