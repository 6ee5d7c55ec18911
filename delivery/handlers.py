"""Delivery: from an event on the backlog to its receiver.

Each kind has a module with a handler, which is loaded at its first delivery: the HTTP client takes 0.4 s, which no
other command should, and boto3 may not be installed.
"""

import gc

from delivery.models import EndpointKind
from jobs.handlers import Kind, Run, registry
from jobs.outcomes import Outcome

QUEUE = "callbacks"
LONGEST_SECONDS = 3_900.0
"""A callback ends by itself, after its endpoint's timeout: an hour at most. What runs for longer hangs."""


def register() -> None:
    """Register the kinds that deliver events."""
    for kind in EndpointKind.values:
        registry.add(Kind(kind, home_queue=QUEUE, max_seconds=LONGEST_SECONDS, warm_up=prepare))
    registry.handler(EndpointKind.HTTP_CALLBACK.value, queue=QUEUE)(post_callback)
    registry.handler(EndpointKind.SQS_MESSAGE.value, queue=QUEUE)(send_message)


COLLECT_AFTER = (20_000, 20, 20)
"""New objects, and rounds, after which Python looks for garbage in cycles. Each callback leaves some dozens; looked for
as often as usual (700, 10, 10), by a worker with all of Django loaded, it takes a third of the event loop's time."""


def prepare() -> None:
    """What a worker does before it claims callbacks: load the HTTP client, so that the first one does not wait for it,
    and take what is loaded by now out of the search for garbage, since it stays.

    Doing it again does no harm.
    """
    from delivery.http import callback  # noqa: F401

    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def post_callback(run: Run) -> Outcome:
    """Deliver by HTTP, on the event loop."""
    from delivery.http import callback

    return await callback.deliver(run)


def send_message(run: Run) -> Outcome:
    """Deliver to a queue of SQS, in a thread."""
    from delivery.sqs import message

    return message.deliver(run)
