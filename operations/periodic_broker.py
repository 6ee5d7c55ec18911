"""The queue of django-q2, for the periodic tasks of this installation and nothing else.

A row of django-q2 names any function by its dotted path, and the cluster calls it: `os.system` as well. Tasks are
checked where the cluster takes them, since a row may be written by a form, by another program or by hand.
"""

import logging
from typing import Any

from django.core.signing import BadSignature
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.models import Task
from django_q.signing import SignedPackage

from operations.periodic_tasks import WANTED

log = logging.getLogger(__name__)

ALLOWED = frozenset(wanted.func for wanted in WANTED)


class PeriodicTasksOnly(ORM):  # type: ignore[misc]
    """A broker that hands the cluster the tasks in `WANTED`. Any other task is removed, and is listed among django-q2's
    failed tasks.
    """

    def dequeue(self) -> list[tuple[int, str]] | None:
        taken = super().dequeue()
        return taken and [each for each in taken if self._is_ours(*each)]

    def _is_ours(self, task_id: int, payload: str) -> bool:
        try:
            task = SignedPackage.loads(payload)
        except (TypeError, BadSignature):
            return True  # the cluster itself refuses it, and reports that
        named = (task["func"], task.get("hook"), *_chained(task))
        unknown = [name for name in named if name and not (isinstance(name, str) and name in ALLOWED)]
        if not unknown:
            return True
        reason = f"refused: {unknown[0]!r:.200} is not a periodic task of this installation"
        log.error("%s (task %.100r)", reason, task.get("name"))
        self.delete(task_id)
        now = timezone.now()
        about = {"id": task["id"], "name": task["name"], "func": f"{unknown[0]!s:.256}", "result": reason}
        Task.objects.create(**about, success=False, started=now, stopped=now)
        return False


def _chained(task: dict[str, Any]) -> list[Any]:
    return [link[0] if isinstance(link, list | tuple) else link for link in task.get("chain") or []]
