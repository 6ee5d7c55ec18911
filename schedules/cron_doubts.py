"""Doubts about a cron expression: parts that may not be intended, their effects, and better ones. Pure.

Only new expressions are looked at; one that an earlier version has stored stays as it is.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime

from cronsim import CronSim, CronSimError

from schedules.cron import FIELDS

SIZES = dict(zip(FIELDS, (60, 24, 31, 12, 7), strict=True))
STEP = re.compile(r"(?P<range>\*|\w+-\w+)/(?P<step>\d+)")
FIRST_WEEKDAYS = {1: "first", 8: "second", 15: "third", 22: "fourth"}
"""The first of seven days of the month → the ordinal number in its month of a weekday that falls on one of them."""
LONGEST = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}


def check_steps(expression: str) -> None:
    """Check the steps. Raises: ValueError for a step that is not smaller than its field, or than its range: it fires at
    the first value alone, contrary to what it suggests.
    """
    for name, field in zip(FIELDS, expression.split(), strict=True):
        for part in field.split(","):
            if (found := STEP.fullmatch(part)) and int(found["step"]) >= (size := _size(name, found["range"])):
                first = found["range"].partition("-")[0]
                first = first if first != "*" else "1" if name in ("day of month", "month") else "0"
                raise ValueError(
                    f"cron {expression!r}: {part!r} has a step of {found['step']} among the {size} values of the {name}"
                    f": it would only be {first}. Write {first} for that, or a smaller step{_more_rarely(name)}"
                )


def _size(name: str, values: str) -> int:
    first, _, last = values.partition("-")
    return int(last) - int(first) + 1 if first.isdecimal() and last.isdecimal() else SIZES[name]


def _more_rarely(name: str) -> str:
    rarer = {"minute": "hour", "hour": "day of month", "day of month": "month"}.get(name)
    return f"; for rarer triggers use the {rarer}" if rarer else ""


def doubts(expression: str) -> list[str]:
    """Sentences without full stops about a readable expression; empty if there is no doubt."""
    try:
        read = CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return []
    return [*_both_days(expression), *_uneven_steps(expression), *_missing_days(expression, read)]


def _both_days(expression: str) -> Iterator[str]:
    minute, hour, day, month, weekday = expression.split()
    if day.startswith("*") or weekday.startswith("*"):
        return
    text = f"cron {expression!r} fires on each day that its day of month or its day of week names, not only on days "
    text += "that match both"
    numbers = day.split("-")[0].split(",")[0]
    if weekday.isalnum() and numbers.isdecimal() and int(numbers) in FIRST_WEEKDAYS:
        nth = list(FIRST_WEEKDAYS).index(int(numbers)) + 1
        cure = (
            f"`{minute} {hour} * {month} {weekday}#{nth}` is the {FIRST_WEEKDAYS[int(numbers)]} such weekday of a month"
        )
    else:
        cure = f"leave one of them *, or write the weekday with its number in the month, such as `* * {month} 1#1`"
    yield f"{text}: {cure}"


def _uneven_steps(expression: str) -> Iterator[str]:
    for name, field in zip(FIELDS, expression.split(), strict=True):
        found = STEP.fullmatch(field)
        if not found or found["range"] != "*" or (step := int(found["step"])) < 2:
            continue
        size = SIZES[name]
        if name == "day of month":
            yield (
                f"cron {expression!r}: {field} begins again with each month: from the last such day to the 1st it is "
                f"less than {step} days. For weeks, write a day of week"
            )
        elif size % step:
            last = size - 1 - (size - 1) % step
            fits = [each for each in range(2, size) if size % each == 0]
            near = min(fits, key=lambda each: (abs(each - step), each), default=0)
            instead = f"; */{near} is even" if near else "; list the values that are meant"
            yield (
                f"cron {expression!r}: {field} of the {name} is not even: it begins again after {_value(name, last)}, "
                f"{size - last} later and not {step}{instead}"
            )


def _value(name: str, number: int) -> int:
    return number + 1 if name == "month" else number


def _missing_days(expression: str, read: CronSim) -> Iterator[str]:
    _, _, day, _, weekday = expression.split()
    if day.startswith("*") or not weekday.startswith("*"):
        return
    last = max((each for each in read.days if isinstance(each, int)), default=0)
    lacking = [month for month in read.months if LONGEST[month] < last]
    if last == 29 and 2 in read.months:
        rest = "comes in leap years alone" if read.months == {2} else "does not come in February but in leap years"
        yield f"cron {expression!r}: the 29th {rest}; L is the last day of each month"
    elif lacking:
        names = ", ".join(f"{date(2000, month, 1):%B}" for month in sorted(lacking))
        yield f"cron {expression!r}: there is no {_ordinal(last)} of {names}; L is the last day of each month"


def _ordinal(day: int) -> str:
    return f"{day}{'st' if day in (1, 21, 31) else 'th'}"
