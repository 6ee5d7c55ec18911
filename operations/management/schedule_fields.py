"""From what a command line says of a schedule to its fields. Nothing is saved here."""

import shlex
from typing import Any

from django.core.exceptions import ValidationError

from operations.schedule_arguments import CRON_FIELDS, NAMED, OPTIONS, cron_of, named
from schedules.models import Schedule
from schedules.validation import OF_POLICIES

SHOWN_NAMES = 20
RELATED = ("endpoint", "throttle", "retry_policy")


def find_schedule(name: str) -> Schedule:
    """Raises: ValueError naming the known ones."""
    rows = Schedule.objects.select_related(*RELATED)
    if "\0" not in name and (found := rows.filter(name=name).first()):
        return found
    known = list(Schedule.objects.order_by("name").values_list("name", flat=True)[: SHOWN_NAMES + 1])
    if not known:
        raise ValueError(f"there is no schedule {name!r}, nor any other; `manage.py schedules add` makes one")
    shown = ", ".join(known[:SHOWN_NAMES]) + (", …" if len(known) > SHOWN_NAMES else "")
    raise ValueError(f"there is no schedule {name!r}; the schedules are: {shown}")


def new_schedule(options: dict[str, Any]) -> Schedule:
    """A valid one of that name and those fields, unsaved. Raises: ValueError, ValidationError."""
    schedule = Schedule(name=options["name"])
    if _is_taken(schedule.name):
        raise ValueError(
            f"{schedule.name}: there is one already; change it with `schedules set`, as `manage.py schedules set "
            f"{shlex.quote(schedule.name)} --window 7200`"
        )
    chosen = _chosen(options)
    missing = []
    if "cron" not in chosen:
        missing.append("--cron is missing: when does it trigger? As --cron '0 3 * * *', or --hour 3,6,9")
    if not (chosen.get("endpoint") or chosen.get("kind") or chosen.get("provider")):
        missing.append("--endpoint is missing: where are its events delivered?")
    if missing:
        raise ValueError("\n".join(missing))
    if not chosen.get("provider"):
        chosen.setdefault("event_count", 1)
    if "kind" not in chosen and chosen.get("endpoint"):
        chosen["kind"] = chosen["endpoint"].kind
    _put(schedule, chosen)
    schedule.full_clean()
    return schedule


def change_fields(schedule: Schedule, options: dict[str, Any]) -> set[str]:
    """Give an unsaved change to a schedule: returns the fields that differ now. Raises: ValueError, ValidationError."""
    chosen = _chosen(options, schedule.cron)
    if "new_name" in options:
        chosen["name"] = options["new_name"]
        if chosen["name"] != schedule.name and _is_taken(chosen["name"]):
            raise ValueError(f"--name: there is a schedule {chosen['name']!r} already")
    if not chosen:
        raise ValueError("say what to change, as --window 7200; `manage.py schedules set --help` shows what there is")
    if chosen.get("provider"):
        chosen.setdefault("event_count", None)
    changed = {field for field, value in chosen.items() if getattr(schedule, field) != value}
    _put(schedule, chosen)
    schedule.full_clean()
    return changed


def describe_problems(error: ValidationError, verb: str) -> str:
    """What is wrong with the fields, each by its option of `verb`, as `add`."""
    if not hasattr(error, "error_dict"):
        return "; ".join(error.messages)
    labels = OPTIONS | ({"name": "NAME"} if verb == "add" else {})
    lines = [f"{labels.get(field, field)}: {' '.join(texts)}" for field, texts in error.message_dict.items()]
    return "\n".join(lines).replace("in window_for", f"with {OPTIONS['window_for']}")


def _is_taken(name: str) -> bool:
    return "\0" not in name and Schedule.objects.filter(name=name).exists()


def _chosen(options: dict[str, Any], cron: str = "") -> dict[str, Any]:
    """The fields that were named, with what they are to be; fields of the cron change the present `cron`.

    Raises: ValueError for unknown names, cron twice, or a provider that is not for it.
    """
    chosen = {field: options[field] for field in OPTIONS if field in options and field != "name"}
    if chosen.get("provider") == OF_POLICIES:
        raise ValueError(
            f"--provider: {OF_POLICIES} are those of a policy, which has a schedule of its own; make a policy instead"
        )
    for field in NAMED:
        if field in chosen:
            chosen[field] = named(field, chosen[field])
    if fields := {field: options[field] for field in CRON_FIELDS if field in options}:
        if "cron" in chosen:
            raise ValueError("say when by --cron or by its fields, not by both")
        chosen["cron"] = cron_of(fields, cron)
    return chosen


def _put(schedule: Schedule, chosen: dict[str, Any]) -> None:
    for field, value in chosen.items():
        setattr(schedule, field, value)
