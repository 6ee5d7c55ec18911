"""On which terms a dump is restored: what a person has allowed for this one restore, and what is named beforehand."""

from dataclasses import dataclass, replace

from storage.restoring.base import KEPT_TEXTS, Report


@dataclass(frozen=True)
class Terms:
    """`trusted`: the dump may run with all rights of the source's account. `roles_with_rights`: roles that the server
    lacks are made with their rights over others' data, too."""

    trusted: bool = False
    roles_with_rights: bool = False


USUAL = Terms()
"""Nothing was allowed."""


NEEDS_TRUST = (
    "the dump would run with all rights of {account} at {source}, since {why}. Allow that for this restore (--trusted, "
    "a tick, `trusted`) if you trust whoever may write to its repository"
)
NO_LOADER = (
    "this account may make none with rights to the new database alone (CREATE USER, and its rights WITH GRANT OPTION)"
)


def needs_trust(account: str, source: str, why: str = NO_LOADER) -> str:
    """What a person is asked before a dump runs with all rights of an account."""
    return NEEDS_TRUST.format(account=account, source=source, why=why)


def foreseen(report: Report, lacks: list[str], notes: list[str], target: str) -> Report:
    """The report of a dry run: what would be left out as what failed."""
    report.what, report.failed_files = "object", len(lacks)
    report.failed, report.not_set = lacks[:KEPT_TEXTS], notes
    return replace(report, target=target)
