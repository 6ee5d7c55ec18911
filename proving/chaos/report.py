"""The report that is printed at the end."""

from collections import Counter
from typing import Any

from jobs.states import AttemptOutcome, Status
from proving.chaos.audit_runs import RunFindings
from proving.chaos.facts import StormFacts

MAX_LINES = 40


def summary(
    facts: StormFacts, done: Counter[str], findings: RunFindings, discrepancies: list[str], seconds: float
) -> dict[str, Any]:
    """The report as a value: seconds, deeds, counts by outcome, peaks, discrepancies."""
    statuses = Counter(record.status for record in facts.records.values())
    outcomes = Counter(attempt.outcome for history in facts.attempts.values() for attempt in history)
    attempts = sum(outcomes.values())
    return {
        "seconds": round(seconds, 1),
        "deeds": dict(sorted(done.items())),
        "workers": len(facts.processes),
        "workers_ended": dict(sorted(Counter(process.how for process in facts.processes.values()).items())),
        "records": len(facts.records),
        "by_status": {str(status.label): statuses[status] for status in Status if statuses[status]},
        "unfinished": _unfinished(facts),
        "attempts": attempts,
        "by_outcome": {str(outcome.label): outcomes[outcome] for outcome in AttemptOutcome if outcomes[outcome]},
        "attempts_a_second": round(attempts / seconds, 1),
        "handlers_run": len(facts.executions),
        "ran_again": findings.ran_again,
        "ran_on_without_lease": findings.ran_on,
        "ran_on_seconds": round(findings.ran_on_seconds, 2),
        "caps": [
            {
                "cap": cap,
                "peak_run": findings.peaks.get(throttle, 0),
                "peak_counted": facts.samples.peaks.get(throttle, 0),
            }
            for throttle, cap in sorted(facts.caps.items())
        ],
        "samples": facts.samples.count,
        "exclusive_keys": findings.keys,
        "peak_of_a_key": findings.peak_of_a_key,
        "bookings": len(facts.bookings),
        "discrepancies": discrepancies,
    }


def _unfinished(facts: StormFacts) -> dict[str, int]:
    left = Counter(
        f"{record.kind} {record.status.label} in {record.queue}"
        for record in facts.records.values()
        if record.status in (Status.WAITING, Status.READY, Status.RUNNING)
    )
    return dict(sorted(left.items()))


def text(report: dict[str, Any], seed: int) -> str:
    """The report as text."""
    caps = ", ".join(f"{cap['cap']} (ran {cap['peak_run']}, counted {cap['peak_counted']})" for cap in report["caps"])
    keys = f"{report['exclusive_keys']} exclusive keys; at most {report['peak_of_a_key']} ran at once under one"
    lines = [
        f"storm        seed {seed}, {report['seconds']} s, {report['workers']} worker processes",
        f"done to it   {_listed(report['deeds'])}",
        f"workers      {_listed(report['workers_ended'])}",
        f"records      {report['records']}: {_listed(report['by_status'])}",
        f"attempts     {report['attempts']}: {_listed(report['by_outcome'])} ({report['attempts_a_second']} a second)",
        f"really ran   {report['handlers_run']} handlers, by the workers' own journals",
        f"ran again    {report['ran_again']} successes whose result was lost with their worker",
        f"ran on       {report['ran_on_without_lease']} without their lease, {report['ran_on_seconds']} s at most",
        f"caps         {caps}, in {report['samples']} samples",
        f"keys         {keys}",
    ]
    if len(report["by_version"]) > 1:
        lines.append(f"by version   {_listed(report['by_version'])}")
    if report["unfinished"]:
        lines.append(f"unfinished   {_listed(report['unfinished'])}: the time to drain was over")
    found = report["discrepancies"]
    lines += [f"DISCREPANCY  {line}" for line in found[:MAX_LINES]]
    if len(found) > MAX_LINES:
        lines.append(f"             … and {len(found) - MAX_LINES} more")
    lines.append(f"{len(found)} discrepancies" if found else "the books balance")
    return "\n".join(lines)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items()) or "nothing"
