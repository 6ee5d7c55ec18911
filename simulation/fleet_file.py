"""The file that describes a fleet to simulate: which source is there when, and how long its backups take.

`fixtures/simulated_fleet.schema.json` is its JSON Schema (`python -m simulation.fleet_file` prints it). All durations
are in seconds; presence is counted from `start`.
"""

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from declarations.problems import message_of
from external.formatting import several
from schedules.cron import Period, check_expression, check_zone
from sources.domain.windows import Window

MOST_SHOWN = 20
"""Problems of one file that are listed."""

YEARS = range(1970, 2200)
"""The years of `start` in which the rules of time zones are known or can be continued."""

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
"""A JSON number: `true` and "5" mean something else."""
Seconds = Annotated[Number, Field(gt=0, le=30 * 86_400)]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class SimulatedPresence(NamedTuple):
    """A time in which a source is reachable, from when to when, in seconds since the fleet's `start`, and its state."""

    from_s: Annotated[Number, Field(ge=0)]
    to_s: Annotated[Number, Field(ge=0)]
    state: Literal["awake", "asleep"] = "awake"


class SimulatedPolicy(BaseModel):
    """A policy: how often, and when, the sources under it are backed up."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    period: str = Field("0 0 * * *", description="Cron expression in five fields: when a new backup becomes due.")
    zone: str = Field("UTC", description="IANA time zone of the period and the windows.")
    windows: list[dict[str, str]] = Field(
        [], description="Weekly ranges in which backups may start, like those of a policy; always if empty."
    )
    connect_timeout: Seconds = Field(60, ge=0.1, description="Seconds for which a silent source is asked.")
    recheck_after: Seconds = Field(900, ge=1, description="Seconds until a silent source is asked again.")
    wake_every: Number = Field(
        14_400, ge=0, le=30 * 86_400, description="Seconds between two magic packets to a source."
    )
    wake_wait: Seconds = Field(180, ge=0.1, description="Seconds from a magic packet to the next question.")
    vanish_grace: Number = Field(
        120, ge=0, le=30 * 86_400, description="Seconds to wait for a source that left in mid-backup."
    )

    @field_validator("period")
    @classmethod
    def _fires(cls, value: str) -> str:
        check_expression(value)
        return value

    @field_validator("zone")
    @classmethod
    def _is_known(cls, value: str) -> str:
        check_zone(value)
        return value

    @field_validator("windows")
    @classmethod
    def _opens(cls, value: list[dict[str, str]], info: ValidationInfo) -> list[dict[str, str]]:
        Window.parse(value, info.data.get("zone", "UTC"))
        return value

    @property
    def cron(self) -> Period:
        return Period(self.period, self.zone)

    @property
    def window(self) -> Window:
        return Window.parse(self.windows, self.zone)


class SimulatedSource(BaseModel):
    """A source, its durations, which are log-normal around their medians, and its presence."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    kind: str = "sftp"
    policy: Name
    wake_on_lan: bool = Field(False, strict=True, description="True if a magic packet wakes it while it is asleep.")
    first_seconds: Seconds = Field(description="Median duration of its first backup.")
    median_seconds: Seconds = Field(description="Median duration of every later one.")
    sigma: Number = Field(0.0, ge=0, le=3, description="Standard deviation of the logarithm of a duration.")
    backed_up: bool = Field(False, strict=True, description="True if it was backed up in the period before `start`.")
    failing: Number = Field(0.0, ge=0, le=1, description="Share of its backups that fail half-way.")
    presence: list[SimulatedPresence] = Field(description="[from, to, state], in order, without overlap.")

    @field_validator("presence")
    @classmethod
    def _is_in_order(cls, value: list[SimulatedPresence]) -> list[SimulatedPresence]:
        for number, each in enumerate(value):
            if each.to_s <= each.from_s:
                raise ValueError(f"[{number}]: it ends at {each.to_s:g}, not after its beginning at {each.from_s:g}")
            if number and each.from_s < value[number - 1].to_s:
                before = value[number - 1]
                raise ValueError(
                    f"[{number}]: it begins at {each.from_s:g} and overlaps the one before, {before.from_s:g} to "
                    f"{before.to_s:g}; write them in order, without overlap"
                )
        return value


class SimulatedFleet(BaseModel):
    """Sources under policies, and the execution units that back them up."""

    model_config = ConfigDict(extra="forbid")

    units: int = Field(strict=True, ge=1, le=10_000, description="Execution units.")
    seed: int = Field(1, strict=True, description="Seed of the random numbers: the same seed gives the same durations.")
    start: AwareDatetime = Field(description="The instant from which presence is counted.")
    policies: list[SimulatedPolicy] = Field(min_length=1)
    sources: list[SimulatedSource] = Field(min_length=1)

    @field_validator("start", mode="before")
    @classmethod
    def _is_written_out(cls, value: Any) -> Any:
        if not (isinstance(value, datetime) or (isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d", value))):
            raise ValueError(f"it is {value!r}: write a date and time, such as 2026-01-05T00:00:00Z")  # no Unix time
        return value

    @field_validator("start")
    @classmethod
    def _is_in_a_year_with_rules(cls, value: datetime) -> datetime:
        if value.year not in YEARS:
            raise ValueError(f"its year is {value.year}: write one from {YEARS[0]} to {YEARS[-1]}")
        return value.astimezone(UTC)


class FleetFileError(ValueError):
    """A fleet file that cannot be simulated: each problem with the path to it."""


def read(path: Path) -> SimulatedFleet:
    """The fleet of a file. Raises: FleetFileError."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise FleetFileError(f"{path}: it cannot be read: {error.strerror}") from error
    try:
        return parse(json.loads(text))
    except FleetFileError as error:
        raise FleetFileError(f"{path}: {error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FleetFileError(f"{path}: it is not JSON: {error}") from error
    except ValueError as error:
        raise FleetFileError(f"{path}: it has a number of more digits than can be read") from error


def parse(facts: Any) -> SimulatedFleet:
    """The fleet in a parsed JSON value. Raises: FleetFileError."""
    try:
        fleet = SimulatedFleet.model_validate(facts)
    except ValidationError as error:
        raise FleetFileError(_listed([_problem(each) for each in error.errors()])) from error
    if problems := list(_problems_across(fleet)):
        raise FleetFileError(_listed(problems))
    return fleet


def _problem(error: Any) -> str:
    where, message = _path(error["loc"]), message_of(error).replace(" after validation", "")
    if error["type"] == "value_error":
        message = str(error["ctx"]["error"])
        if message.startswith("["):  # of one item, which the field's own validator found
            item, _, message = message.partition(": ")
            where += item
    return f"{where or 'the file'}: {message}"


def _path(location: tuple[str | int, ...]) -> str:
    found = ""
    for part in location:
        found += f"[{part}]" if isinstance(part, int) else f".{part}" if found else str(part)
    return found


def _problems_across(fleet: SimulatedFleet) -> Iterator[str]:
    names = [policy.name for policy in fleet.policies]
    for kind, rows in (("policies", names), ("sources", [source.name for source in fleet.sources])):
        seen: set[str] = set()
        for number, name in enumerate(rows):
            if name in seen:
                yield f"{kind}[{number}].name: there is another {name!r}"
            seen.add(name)
    for number, source in enumerate(fleet.sources):
        if source.policy not in names:
            close = get_close_matches(source.policy, names, n=1)
            there = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names[:MOST_SHOWN])}"
            yield f"sources[{number}].policy: there is no policy {source.policy!r}; {there}"


def _listed(problems: list[str]) -> str:
    more = len(problems) - MOST_SHOWN
    return "; ".join([*problems[:MOST_SHOWN], *([f"and {several(more, 'more problem')}"] if more > 0 else [])])


def schema() -> str:
    """The JSON Schema of a fleet file."""
    return json.dumps(SimulatedFleet.model_json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema())
