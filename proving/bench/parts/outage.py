"""A service is down for a day or a week: how often is it called, and how long until all jobs that need it are done?

This runs in virtual time, with one preset of each algorithm, without a circuit breaker and with one.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from proving.bench.contestants.virtual import PRESETS
from proving.bench.parts.side_by_side import side_by_side
from proving.bench.results import Key, percentile
from proving.bench.stage import Stage

PART = "outage"
DAY = 86_400.0
ONE_DAY, ONE_WEEK = "1 day", "7 days"
LASTS = {ONE_DAY: DAY, ONE_WEEK: 7 * DAY}
STRETCHES = {ONE_DAY: (0, 1, 2, 6, 12, 24), ONE_WEEK: (0, 24, 48, 96, 168)}
"""Hours between which the calls per hour are reported."""
WINDOW = {ONE_DAY: 6, ONE_WEEK: 56}
"""Hours; the later of two such windows should not have more calls."""
SHARES = (0.5, 0.99)
WEEK_SHARE = 5
GUARDED_PRESET = "fibonacci"


class OutageCase(NamedTuple):
    preset: str
    lasts: str
    jobs: int
    guarded: bool

    @property
    def who(self) -> str:
        return "any, with a breaker" if self.guarded else self.preset

    def titled(self, what: str) -> str:
        return f"{self.lasts}, {self.jobs:,} jobs: {what}"


def run(stage: Stage) -> None:
    jobs = stage.options.outage_jobs
    cases = list(cases_of(jobs, hardest_only=stage.options.hardest_only))
    calls = [
        (case.preset, {"outage": {"lasts": LASTS[case.lasts], "jobs": case.jobs, "guarded": case.guarded}})
        for case in cases
    ]
    for _ in stage.repeats(PART, 1):  # with the same seed the same comes out
        for case, result in side_by_side(stage, "meet_outage", dict(zip(cases, calls, strict=True))):
            note_down(stage, case, result)


def cases_of(jobs: int, *, hardest_only: bool) -> Iterator[OutageCase]:
    """Cases of a day with all jobs, and of a week with some of them. A quick look leaves out the week."""
    weeks = () if hardest_only else ((ONE_WEEK, max(1, jobs // WEEK_SHARE)),)
    for lasts, count in ((ONE_DAY, jobs), *weeks):
        yield from (OutageCase(preset, lasts, count, guarded=False) for preset in PRESETS)
        # records that wait for a breaker do not wait by their policy
        yield OutageCase(GUARDED_PRESET, lasts, count, guarded=True)


def note_down(stage: Stage, case: OutageCase, result: dict[str, Any]) -> None:
    calls, recovered = result["calls"], result["recovered"]
    stage.say(f"outage, {case.lasts}, {case.who}: {sum(calls):,} calls, {result['charged']:,} failures counted")
    for start, end in pairwise(STRETCHES[case.lasts]):
        key = Key(PART, case.titled(f"calls an hour, {hours_named(start, end)}"), case.who)
        stage.results.add(key, sum(calls[start:end]) / (end - start), "1/h")
    less = "" if is_called_less(calls, WINDOW[case.lasts]) else "not less and less"
    charged = f"{result['charged']:,} failures counted for jobs"
    remarks = "; ".join(filter(None, [less, charged, gave_up(result)]))
    stage.results.add(Key(PART, case.titled("calls in all"), case.who), sum(calls), "", remarks)
    for share in SHARES:
        at = recovered_by(recovered, case.jobs, share)
        if at is not None:
            key = Key(PART, case.titled(f"after it, until {share:.0%} are done"), case.who)
            stage.results.add(key, at / 60, "min", gave_up(result))


def hours_named(start: int, end: int) -> str:
    return f"hour {end}" if end == start + 1 else f"hours {start + 1}–{end}"


def gave_up(result: dict[str, Any]) -> str:
    return f"{result['gave_up']:,} gave up" if result["gave_up"] else ""


def is_called_less(calls: Sequence[int], window: int) -> bool:
    """True if no `window` hours have more calls than those before, within two deviations for chance."""
    counts = [sum(calls[start : start + window]) for start in range(0, len(calls), window)]
    return all(later <= earlier + 2 * (earlier + later) ** 0.5 for earlier, later in pairwise(counts))


def recovered_by(recovered: list[float], jobs: int, share: float) -> float | None:
    """Seconds after the outage by which `share` (0 to 1) of all jobs were done, or None if so many never were."""
    never = float("inf")
    at = percentile([*recovered, *[never] * (jobs - len(recovered))], share)
    return None if at == never else at
