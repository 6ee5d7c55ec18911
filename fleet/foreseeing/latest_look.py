"""The latest look ahead, as `at_risk.py` has kept it. Pages and commands read it without the runs that made it, which
take a while to load.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from external.formatting import several
from sources.models import Foresight

OLD_AFTER = timedelta(hours=1)


@dataclass(frozen=True)
class AtRisk:
    """The latest look. `unnamed`: how many miss their period besides those at risk, according to the runs. `because`:
    why there is no fresh look; empty if there is one.
    """

    at: datetime | None
    number: int
    looked_at: int
    at_risk: list[dict[str, Any]]
    units: int
    units_needed: int | None
    because: str
    unnamed: int = 0

    @property
    def text(self) -> str:
        """The summary with names; empty if none is foreseen to miss its period, or nothing is known."""
        names = ", ".join(dict.fromkeys(each["source"] for each in self.at_risk[:3]))
        more = f" and {self.number - 3:,} more" if self.number > 3 else ""
        return self._summary(f": {names}{more}")

    @property
    def summary(self) -> str:
        """A sentence without its full stop about those who miss their period: how many are named, how many are not,
        and how many units would be enough; empty if none is foreseen to, or nothing is known.
        """
        return self._summary()

    def _summary(self, names: str = "") -> str:
        clauses = []
        if self.number:
            of = f"{self.number:,} of {several(self.looked_at, 'due assignment')}"
            clauses.append(f"{of} will probably miss this period{names}")
        if self.unnamed:
            clauses.append(self._others)
        if clauses and self.units_needed is not None and self.units_needed > self.units:
            units = f"{self.units_needed:,} units in place of {self.units:,}"
            clauses.append(f"by the same runs, {units} would be enough for 99 % of the sources that are there")
        return "; ".join(clauses)

    @property
    def _others(self) -> str:
        if self.number:
            return f"about {self.unnamed:,} of the others probably will, too, and it is not known yet which"
        due = several(self.looked_at, "due assignment")
        return f"about {self.unnamed:,} of {due} will probably miss this period, and it is not known yet which"


def latest_look(now: datetime) -> AtRisk:
    """The latest look."""
    row = Foresight.objects.filter(pk=1).first()
    if row is None:
        return AtRisk(None, 0, 0, [], 0, None, "nothing was foreseen yet: a periodic task does it every 15 minutes")
    if row.because or now - row.at > OLD_AFTER:
        because = row.because or "the latest look ahead is older than an hour: the periodic tasks do not run"
        return AtRisk(row.at, 0, row.looked_at, [], row.units, None, because)
    return AtRisk(row.at, row.number, row.looked_at, row.at_risk, row.units, row.units_needed, "", row.unnamed)
