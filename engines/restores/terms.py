"""The terms on which a dump is restored: the things that a user has allowed for this one restore, and those that are
named in advance.
"""

from dataclasses import dataclass, replace

from storage.restoring.base import KEPT_TEXTS, Report


@dataclass(frozen=True)
class Terms:
    """The things that a user has allowed. `trusted`: the dump may run with all rights of the source's account.
    `roles_with_rights`: roles that the server lacks are made with their rights over others' data, too.
    """

    trusted: bool = False
    roles_with_rights: bool = False


USUAL = Terms()
"""Terms that allow nothing."""


NEEDS_TRUST = (
    "the dump would run with all rights of {account} at {source}, since {why}. Allow that for this restore "
    "(--trusted, a tick, `trusted`) if you trust everyone who may write to its repository"
)
NO_LOADER = (
    "this account may make none with rights to the new database alone (CREATE USER, and its rights WITH GRANT OPTION)"
)


def needs_trust(account: str, source: str, why: str = NO_LOADER) -> str:
    """The question to a user before a dump runs with all rights of an account."""
    return NEEDS_TRUST.format(account=account, source=source, why=why)


def foreseen(report: Report, lacks: list[str], notes: list[str], target: str) -> Report:
    """The report of a dry run: the things that would be left out are reported as failed."""
    report.what, report.failed_files = "object", len(lacks)
    report.failed, report.not_set = lacks[:KEPT_TEXTS], notes
    return replace(report, target=target)
