import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django_q.models import Schedule as PeriodicTask

from jobs import tiers

TASKS: dict[str, dict[str, Any]] = {
    "backlog tick": {
        "func": "jobs.periodic.tick",
        "schedule_type": PeriodicTask.MINUTES,
        "minutes": 1,
        "repeats": -1,
    },
    "backlog prune": {
        "func": "jobs.periodic.prune",
        "schedule_type": PeriodicTask.HOURLY,
        "repeats": -1,
    },
} | {
    f"backlog sweep, {tier.max_age_days} days": {
        "func": "jobs.periodic.process_backlog",
        "args": f"({tier.max_age_days},)",
        "schedule_type": PeriodicTask.MINUTES,
        "minutes": tier.every // tiers.MINUTE,
        "repeats": -1,
    }
    for tier in tiers.TIERS
}


class Command(BaseCommand):
    help = (
        "Install the periodic tasks that django-q2 runs (`manage.py qcluster`): the tick, every minute, and pruning, "
        "every hour. Idempotent: run it again after each upgrade; it says what it changed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print what was done as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        done = {name: _install(name, wanted) for name, wanted in TASKS.items()}
        if options["json"]:
            self.stdout.write(json.dumps(done))
            return
        for name, what in done.items():
            self.stdout.write(f"{name}: {what}")


def _install(name: str, wanted: dict[str, Any]) -> str:
    """Create or correct one periodic task. Returns what was done, in words."""
    task = PeriodicTask.objects.filter(name=name).first()
    if task is None:
        PeriodicTask.objects.create(name=name, **wanted)
        return "installed"
    different = {key: value for key, value in wanted.items() if getattr(task, key) != value}
    if not different:
        return "unchanged"
    before = ", ".join(f"{key} {getattr(task, key)!r} → {value!r}" for key, value in different.items())
    for key, value in different.items():
        setattr(task, key, value)
    task.save()
    return f"changed: {before}"
