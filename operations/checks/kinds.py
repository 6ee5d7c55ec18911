"""Whether each registered kind of record finds its queue, and there its handler."""

from collections.abc import Iterator

from django.core.checks import CheckMessage

from jobs.handlers import Registry
from operations.checks.messages import error, warning


def kinds_nobody_takes(registry: Registry, queues: list[str]) -> Iterator[CheckMessage]:
    """Kinds whose records start where nobody takes them. `queues`: names that a worker can serve."""
    handled = registry.handlers()
    for kind in registry.kinds.values():
        if kind.home_queue not in queues:
            yield error(
                "E009",
                f"records of kind {kind.name!r} start in queue {kind.home_queue!r}, which no worker can serve",
                f"add it to JOBS['QUEUES'] (there are {', '.join(queues)}), or correct the kind's home_queue",
            )
        elif (kind.name, kind.home_queue) not in handled:
            yield error(
                "E010",
                f"records of kind {kind.name!r} start in queue {kind.home_queue!r}, where it has no handler",
                "register a handler for it in the ready() of its app",
            )


def unreached_handlers(registry: Registry, queues: list[str]) -> Iterator[CheckMessage]:
    """Handlers that nothing reaches. `queues`: names that a worker can serve."""
    for kind, queue in sorted(registry.handlers()):
        if queue not in queues and registry.kind(kind).home_queue != queue:
            yield warning(
                "W001",
                f"kind {kind!r} has a handler for queue {queue!r}, which no worker can serve",
                f"add it to JOBS['QUEUES'] (there are {', '.join(queues)}), or take the handler out",
            )
