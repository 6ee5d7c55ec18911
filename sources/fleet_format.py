"""The shape of a fleet file: its sections, their fields, and the type of each. Pure: no database.

`read_rows` finds everything that can be wrong with a file before anybody looks at what it means.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jobs import durations


class FleetError(ValueError):
    """The fleet file cannot be imported; nothing was. `errors`: one line each, naming file, row and field."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


@dataclass
class Problems:
    """What is wrong with a file, in the order found. `origin` is the file's name in every line."""

    origin: str
    lines: list[str] = field(default_factory=list)
    told: set[tuple[str, int, str]] = field(default_factory=set)

    def add(self, section: str, number: int | None, name: object, problem: str) -> None:
        """Note a problem, as `field: what`, of row `number` (from 0) of a section, or of the section itself.

        One problem a field is told, the first: what follows from it is not worth a line.
        """
        if number is not None:
            key = (section, number, problem.partition(":")[0])
            if key in self.told:
                return
            self.told.add(key)
        row = "" if number is None else f"[{number}]"
        label = f" ({name})" if isinstance(name, str) and name else ""
        self.lines.append(f"{self.origin}: {section}{row}{label}: {problem}")

    def stop_if_any(self) -> None:
        """Raises: FleetError with all problems."""
        if self.lines:
            raise FleetError(self.lines)


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Type:
    """A type of field: what a person calls it, and the test of a value."""

    title: str
    fits: Callable[[Any], bool]
    read: Callable[[Any], Any] = _as_it_is


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _seconds(value: Any) -> Any:
    """A duration in seconds; what is none stays as it is, and is refused."""
    try:
        return durations.parse(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


A_DURATION = "a number of seconds or a duration as 90s, 15m, 2h or 7d"
TEXT = Type("text", lambda value: isinstance(value, str))
NAME = Type("text that is not empty", lambda value: isinstance(value, str) and bool(value))
NAME_OR_NULL = Type("text or null", lambda value: value is None or (isinstance(value, str) and bool(value)))
WHOLE = Type("a whole number", _is_whole)
WHOLE_OR_NULL = Type("a whole number or null", lambda value: value is None or _is_whole(value))
SECONDS = Type(A_DURATION, lambda value: _is_number(_seconds(value)), _seconds)
SECONDS_OR_NULL = Type(f"{A_DURATION}, or null", lambda value: value is None or SECONDS.fits(value), _seconds)
WHOLE_SECONDS = Type(f"whole, {A_DURATION}", lambda value: _is_whole(_seconds(value)), _seconds)
WHOLE_SECONDS_OR_NULL = Type(
    f"whole, {A_DURATION}, or null", lambda value: value is None or WHOLE_SECONDS.fits(value), _seconds
)
YES_NO = Type("true or false", lambda value: isinstance(value, bool))
YES_NO_OR_NULL = Type("true, false or null", lambda value: value is None or isinstance(value, bool))
OBJECT = Type("an object", lambda value: isinstance(value, dict))
LIST = Type("a list", lambda value: isinstance(value, list))
NAMES = Type("a list of names", _is_list_of_text)

SECTIONS: dict[str, dict[str, Type]] = {
    "repositories": {"name": NAME, "location": NAME},
    "retry_policies": {
        "name": NAME,
        "algorithm": NAME,
        "parameters": OBJECT,
        "max_delay": WHOLE_SECONDS,
        "max_failures": WHOLE_OR_NULL,
        "give_up_after": WHOLE_SECONDS_OR_NULL,
    },
    "policies": {
        "name": NAME,
        "cron": NAME,
        "zone": NAME,
        "repository": NAME,
        "retry_policy": NAME_OR_NULL,
        "priority": WHOLE,
        "enabled": YES_NO,
        "window": LIST,
        "excluded_dates": NAMES,
        "at_close": NAME,
        "only_if_it_fits": YES_NO,
        "seeding_limit": WHOLE_OR_NULL,
        "engine_options": OBJECT,
        "keep_versions": WHOLE,
        "max_running_for": SECONDS,
        "least_rate": WHOLE_OR_NULL,
        "connect_timeout": SECONDS,
        "recheck_after": SECONDS,
        "vanish_grace": SECONDS,
        "address_follows": YES_NO,
        "on_battery": YES_NO,
        "on_metered": YES_NO,
        "alert_after": SECONDS_OR_NULL,
        "wake_allowed": YES_NO,
        "wake_every": SECONDS,
        "wake_wait": SECONDS,
    },
    "sources": {
        "name": NAME,
        "kind": NAME,
        "address": TEXT,
        "port": WHOLE_OR_NULL,
        "path": TEXT,
        "options": OBJECT,
        "secret": TEXT,
        "host_key": TEXT,
        "mac_address": TEXT,
        "wake_address": TEXT,
        "wake_port": WHOLE,
        "wake_allowed": YES_NO_OR_NULL,
        "policies": NAMES,
    },
}
NEEDED = {
    "repositories": ("name", "location"),
    "retry_policies": ("name", "algorithm"),
    "policies": ("name", "cron", "repository"),
    "sources": ("name", "kind"),
}

Rows = dict[int, dict[str, Any]]
"""The rows of a section by their number in the file. Each has a name of its own; what has a wrong type is left out."""


def read_rows(data: object, problems: Problems) -> dict[str, Rows]:
    """The rows of each section, without what has a wrong shape: that is noted in `problems`."""
    if not isinstance(data, dict):
        problems.lines.append(f"{problems.origin}: is not an object with {', '.join(SECTIONS)}")
        return {section: {} for section in SECTIONS}
    for unknown in sorted(set(data) - set(SECTIONS)):
        problems.add(unknown, None, None, f"unknown section; there are {', '.join(SECTIONS)}")
    return {section: _read_section(section, data.get(section, []), problems) for section in SECTIONS}


def _read_section(section: str, rows: object, problems: Problems) -> Rows:
    if not isinstance(rows, list):
        problems.add(section, None, None, "must be a list")
        return {}
    first_with: dict[str, int] = {}
    good: Rows = {}
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            problems.add(section, number, None, "is not an object")
            continue
        name = row.get("name")
        wrong = _wrong_fields(section, row)
        if isinstance(name, str) and first_with.setdefault(name, number) != number:
            wrong.setdefault("name", f"stands twice in the file, first in {section}[{first_with[name]}]")
        for key, problem in wrong.items():
            problems.add(section, number, name, f"{key}: {problem}")
        if "name" not in wrong:
            fields = SECTIONS[section]
            good[number] = {key: fields[key].read(value) for key, value in row.items() if key not in wrong}
    return good


def _wrong_fields(section: str, row: dict[str, Any]) -> dict[str, str]:
    """Field → what is wrong with its shape."""
    fields = SECTIONS[section]
    wrong = {key: "is missing" for key in NEEDED[section] if key not in row}
    for key, value in row.items():
        if key not in fields:
            wrong[key] = f"unknown field; there are {', '.join(fields)}"
        elif not fields[key].fits(value):
            wrong[key] = f"must be {fields[key].title}, not {_shortened(value)}"
        elif not _storable(value):
            wrong[key] = "holds a character that cannot be stored (NUL or half of a surrogate pair)"
    name = row.get("name")
    if isinstance(name, str) and (name != name.strip() or not name.isprintable()):
        wrong["name"] = f"{name!r} begins or ends with a space, or holds a control character"
    return wrong


def _shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _storable(value: Any) -> bool:
    """Whether PostgreSQL can store all text in a JSON value."""
    if isinstance(value, dict):
        return all(_storable(key) and _storable(entry) for key, entry in value.items())
    if isinstance(value, list):
        return all(map(_storable, value))
    if isinstance(value, float):
        return math.isfinite(value)
    if not isinstance(value, str):
        return True
    return "\x00" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
