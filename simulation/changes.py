"""Changes to try with a fleet: more units, other settings of policies, more sources; and how users write them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from declarations.unknown import no_such
from external import durations
from simulation.fleet_file import SimulatedFleet, SimulatedPolicy, SimulatedSource

MOST_ADDED = MOST_UNITS = 10_000
FIELDS = {"cron": "period", "zone": "zone", "window": "windows"}
WRITTEN = {field: name for name, field in FIELDS.items()}
ANY_POLICY = SimulatedPolicy.model_validate({"name": "any"})
SECONDS = ("connect_timeout", "recheck_after", "wake_every", "wake_wait", "vanish_grace")


class ImpossibleChange(ValueError):
    """A change that no fleet can have, or that this one cannot. `field`: the part that is wrong: `units`, `add`,
    `like`, `policy`, or a setting of the policy, such as `window`.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Changes:
    """Changes to a fleet. `policies`: name → fields of a fleet file; `added`: (how many, like which source)."""

    units: int | None = None
    policies: Sequence[tuple[str, dict[str, Any]]] = ()
    added: Sequence[tuple[int, str]] = ()

    def made_to(self, fleet: SimulatedFleet) -> SimulatedFleet:
        """The fleet with the changes. Raises: ImpossibleChange for a name that is not in it, and for a value that is
        impossible.
        """
        self.check()
        policies = {each.name: each for each in fleet.policies}
        for name, values in self.policies:
            if name not in policies:
                raise ImpossibleChange("policy", no_such("policy", name, list(policies)))
            policies[name] = _changed(policies[name], name, values)
        sources = list(fleet.sources)
        for number, like in self.added:
            sources += _copies(fleet.sources, number, like)
        return fleet.model_copy(
            update={"units": self.units or fleet.units, "policies": [*policies.values()], "sources": sources}
        )

    def check(self) -> None:
        """Raises: ImpossibleChange for a number or a setting that is impossible in any fleet."""
        for name, values in self.policies:
            _changed(ANY_POLICY, name, values)
        for number, _ in self.added:
            if not 1 <= number <= MOST_ADDED:
                raise ImpossibleChange("add", f"{number} sources cannot be added: 1 to {MOST_ADDED:,} can")
        if self.units is not None and not 1 <= self.units <= MOST_UNITS:
            raise ImpossibleChange("units", f"units {self.units}: there can be 1 to {MOST_UNITS:,}")


def _changed(policy: SimulatedPolicy, name: str, values: dict[str, Any]) -> SimulatedPolicy:
    try:
        return SimulatedPolicy.model_validate(policy.model_dump() | values)
    except ValidationError as error:
        first = error.errors()[0]
        why = first["ctx"]["error"] if first["type"] == "value_error" else first["msg"]
        field = WRITTEN.get(str(first["loc"][0]), str(first["loc"][0]))
        raise ImpossibleChange(field, f"policy {name}: {field}: {why}") from error


def _copies(sources: Iterable[SimulatedSource], number: int, like: str) -> list[SimulatedSource]:
    """Make a number of sources like an existing one: there when it was, with their own durations, and not backed up
    yet.
    """
    by_name = {each.name: each for each in sources}
    if like not in by_name:
        raise ImpossibleChange("like", no_such("source", like, list(by_name)))
    made = {"backed_up": False}
    return [by_name[like].model_copy(update=made | {"name": f"{like} +{each}"}) for each in range(1, number + 1)]


def policy_setting(written: str) -> tuple[str, dict[str, Any]]:
    """`NAME.window=mon-fri 08:00-18:00; sat 09:00-12:00`, `NAME.cron=0 7 * * *`, `NAME.wake_every=2h`. Raises:
    ValueError."""
    place, equals, value = written.partition("=")
    name, dot, key = place.rpartition(".")
    if not (equals and dot and name):
        raise ValueError(f"{written!r:.80}: write NAME.window=mon-fri 08:00-18:00")
    if key not in FIELDS and key not in SECONDS:
        raise ValueError(no_such("such setting of a policy in a simulation", key, [*FIELDS, *SECONDS]))
    if key == "window":
        return name, {"windows": ranges(value)}
    return name, {FIELDS.get(key, key): durations.parse(value) if key in SECONDS else value.strip()}


def ranges(written: str) -> list[dict[str, str]]:
    """The ranges of a window, with semicolons between them: `mon-fri 22:00-06:00; sun 00:00-00:00`; `always`: none.
    Raises: ImpossibleChange."""
    if written.strip() in ("", "always"):
        return []
    found = []
    for each in written.split(";"):
        days, _, hours = each.strip().rpartition(" ")
        start, dash, end = hours.replace("–", "-").partition("-")
        if not dash:
            because = f"window {each.strip()!r:.60}: write ranges as mon-fri 08:00-18:00; sat 09:00-12:00"
            raise ImpossibleChange("window", because)
        found.append({"days": days.strip() or "mon-sun", "start": start, "end": end})
    return found


def addition(words: Sequence[str]) -> tuple[int, str]:
    """Read `50 laptops like NAME`; the word between is for the reader. Raises: ValueError."""
    words = " ".join(words).split(" ")
    if "like" not in words or not words[0].isdecimal():
        raise ValueError("--add: write 50 laptops like NAME")
    return int(words[0]), " ".join(words[words.index("like") + 1 :])
