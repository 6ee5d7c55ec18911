"""The speed at which a period's start puts due assignments on the backlog, next to a COPY of the same rows."""

from typing import NamedTuple

from proving.bench.contestant import Contestant
from proving.bench.processes import call
from proving.bench.results import Key
from proving.bench.stage import Stage

OURS, COPY = "backups-ours", "backups-copy"
TARGET = "≥ 0.2"


class EmissionFleet(NamedTuple):
    policies: int
    throttled: bool

    @property
    def case(self) -> str:
        many = f"{self.policies} policies" if self.policies > 1 else "1 policy"
        return f"{many}, throttled" if self.throttled else many


FLEETS = (EmissionFleet(1, throttled=False), EmissionFleet(100, throttled=False), EmissionFleet(100, throttled=True))


def run(stage: Stage) -> None:
    fleets = FLEETS[-1:] if stage.options.hardest_only else FLEETS
    for _ in stage.repeats("emission"):
        for fleet in fleets:
            for contestant in stage.cast([OURS, COPY]):
                with stage.trying(contestant):
                    measure(stage, contestant, fleet)
    for fleet in fleets:
        ours, copied = (Key("emission", fleet.case, name) for name in (OURS, COPY))
        stage.results.compare(f"emission, {fleet.case}: ours / COPY", ours, copied, TARGET)
    stage.drop_templates()


def measure(stage: Stage, contestant: Contestant, fleet: EmissionFleet) -> None:
    """Emit once. Raises: ContestantFailed."""
    options = {"assignments": stage.options.assignments, **fleet._asdict()}
    template = stage.template_by(contestant, "make_fleet", **options)
    with stage.server.copy_of(template) as database:
        stage.server.checkpoint()
        records, seconds, statements = call(contestant, "time_emission", url=stage.server.url(database))
    stage.say(f"emission, {fleet.case}: {contestant.name} {records / seconds:,.0f} records/s, {statements} statements")
    stage.results.add(Key("emission", fleet.case, contestant.name), records / seconds, "records/s")
    if contestant.name == OURS:
        case = f"statements, {fleet.case}"
        stage.results.add(Key("emission", case, contestant.name), statements, f"for {records:,} records")
