"""The verdict on one fault: the audits of the storm, and the rules between hosts. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from proving.chaos import audit_runs, audit_tables, report
from proving.chaos.facts import Execution, StormFacts
from proving.chaos.hosts.lost import Lost, without_the_lost
from proving.chaos.hosts.overlaps import overlaps
from proving.chaos.hosts.stage import HostsStage

LONGEST_TOGETHER = 2 / 3
"""The longest time, in leases, for which a worker runs what it could not renew, whatever the database does."""
ENDING_SECONDS = 2.0


def judge(
    facts: StormFacts, stage: HostsStage, healed: Mapping[str, float | None], died: Sequence[str], patience: float
) -> Any:
    """The report of one fault. `healed`: service or worker → seconds after the fault, or None if not within `patience`;
    `died`: services that ended by themselves."""
    lost = Lost(facts, frozenset(), [], [])
    if stage.lags_from is not None:
        lost = without_the_lost(facts, stage.lags_from, stage.put_before)
    findings = audit_runs.audit(lost.facts)
    found = [*lost.discrepancies, *audit_tables.audit(lost.facts), *findings.discrepancies, *facts.complaints]
    found += [f"{name} ended by itself" for name in died]
    found += [f"{name} did nothing for {patience:.0f} s after the fault" for name, at in healed.items() if at is None]
    ended = {pid: process.ended for pid, process in facts.processes.items()}
    forgotten = {id(execution) for execution in lost.executions}
    together = 0.0
    for one, other, seconds in overlaps(facts.executions, ended):
        if id(one) in forgotten:
            together = max(together, seconds)
        if id(one) not in forgotten or seconds > LONGEST_TOGETHER * facts.lease_seconds + ENDING_SECONDS:
            found.append(f"{_name(one)} and {_name(other)} ran at once for {seconds:.2f} s")
    return {
        "healed": healed,
        "lost": {
            "records": len(lost.subjects),
            "attempts": len(lost.executions),
            "successes": sum(each.outcome == "Succeeded" for each in lost.executions),
            "ran_at_once_seconds": round(together, 2),
        },
        **report.summary(lost.facts, Counter(), findings, found, 1.0),
    }


def _name(execution: Execution) -> str:
    return f"attempt {execution.attempt} of record {execution.record_id} ({execution.kind})"


def text(found: Mapping[str, Any]) -> str:
    """The report as text."""
    healed = ", ".join(f"{name} {'never' if at is None else f'{at:.1f} s'}" for name, at in found["healed"].items())
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in found["by_outcome"].items())
    waited, lost = found["pick_up"], found["lost"]
    lines = [
        f"{found['fault']:<12} {found['summary']}",
        f"    healed     {healed} after it",
        f"    records    {found['records']}; attempts {found['attempts']}: {outcomes}",
        f"    picked up  after {waited['median']:.2f} s at the median, {waited['longest']:.2f} s at most",
        f"    ran again  {found['ran_again']} successes whose result was lost with a lease",
    ]
    if lost["records"] or lost["attempts"]:
        lines += [
            f"    lost       {lost['records']} records that had been put there, {lost['attempts']} attempts, of them "
            f"{lost['successes']} successes",
            f"    at once    {lost['ran_at_once_seconds']} s at most ran a lost attempt beside another",
        ]
    lines += [f"    DISCREPANCY  {line}" for line in found["discrepancies"]] or ["    the books balance"]
    return "\n".join(lines)
