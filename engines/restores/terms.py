"""On which terms a dump is restored: what a person has allowed for this one restore, and what is named beforehand."""

from dataclasses import dataclass, replace

from storage.points.places import KEPT_TEXTS, Report


@dataclass(frozen=True)
class Terms:
    """`roles_with_rights`: roles that the server lacks are made with their rights over others' data, too."""

    roles_with_rights: bool = False


USUAL = Terms()
"""Nothing was allowed."""


def foreseen(report: Report, lacks: list[str], notes: list[str], target: str) -> Report:
    """The report of a dry run: what would be left out as what failed."""
    report.what, report.failed_files = "object", len(lacks)
    report.failed, report.not_set = lacks[:KEPT_TEXTS], notes
    return replace(report, target=target)
