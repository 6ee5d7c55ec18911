"""Q_CLUSTER: the traps of django-q2's defaults (docs/decisions/0004-django-q2-runs-the-clock-only.md)."""

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage

from operations.checks.messages import is_number, warning

OURS = "operations.periodic_broker.PeriodicTasksOnly"


def wrong_with_q_cluster(cluster: Any) -> Iterator[CheckMessage]:
    """`cluster`: settings.Q_CLUSTER."""
    if not isinstance(cluster, dict):
        yield warning("W010", f"Q_CLUSTER is {cluster!r:.80}, not a dict", "see backupsched/settings.py")
        return
    if cluster.get("orm") != "default" or cluster.get("broker_class") != OURS:
        found = cluster.get("broker_class") or "its own"
        yield warning(
            "W011",
            f"django-q2's broker is {found} on {cluster.get('orm')!r}: it may be out of step with the rows, and "
            "runs any function that a row names",
            f"set Q_CLUSTER['orm'] to 'default' and 'broker_class' to '{OURS}'",
        )
    if cluster.get("ack_failures") is not True:
        yield warning(
            "W012",
            "django-q2 delivers a periodic task that failed again and again",
            "set Q_CLUSTER['ack_failures'] to True",
        )
    if cluster.get("max_attempts", 0) != 1:
        yield warning(
            "W013",
            f"django-q2 tries a periodic task {cluster.get('max_attempts') or 'endless'} times; the next run is the "
            "next try",
            "set Q_CLUSTER['max_attempts'] to 1",
        )
    yield from _taken_ahead(cluster)
    if cluster.get("catch_up", True) is not False:
        yield warning(
            "W016",
            "django-q2 replays every run that it missed: 4,320 ticks after three days down",
            "set Q_CLUSTER['catch_up'] to False",
        )
    yield from _redelivered(cluster)
    if cluster.get("scheduler", True) is not True:
        yield warning(
            "W019", "django-q2's scheduler is off: no periodic task runs", "take 'scheduler' out of Q_CLUSTER"
        )


def _taken_ahead(cluster: dict[str, Any]) -> Iterator[CheckMessage]:
    why = "tasks are taken into memory long before they run, and delivered again meanwhile"
    if cluster.get("bulk", 1) != 1:
        yield warning("W014", f"Q_CLUSTER['bulk'] is {cluster['bulk']!r}: {why}", "set Q_CLUSTER['bulk'] to 1")
    workers, limit = cluster.get("workers"), cluster.get("queue_limit")
    # left out, django-q2 takes the number of processors, and its square
    if not workers or limit != workers:
        yield warning(
            "W015",
            f"Q_CLUSTER['queue_limit'] is {limit!r} and 'workers' {workers!r}: {why}",
            "set both, to the same number; 1 is enough",
        )


def _redelivered(cluster: dict[str, Any]) -> Iterator[CheckMessage]:
    timeout, retry = cluster.get("timeout"), cluster.get("retry", 60)
    if not is_number(timeout) or timeout <= 0:
        yield warning(
            "W017",
            f"Q_CLUSTER['timeout'] is {timeout!r}: a periodic task that hangs, hangs for ever",
            "set Q_CLUSTER['timeout'] to 300",
        )
    elif not is_number(retry) or not retry > timeout:
        yield warning(
            "W018",
            f"Q_CLUSTER['retry'] is {retry!r} and 'timeout' {timeout!r}: a task that still runs is run a second time",
            "set 'retry' above 'timeout'; 600 and 300 are usual",
        )
