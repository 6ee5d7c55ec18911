"""The tables of sources and their backups. docs/glossary.md has the words."""

from sources.models.assignment import Assignment, Pause
from sources.models.backup import (
    Backup,
    CheckRound,
    Copy,
    ManifestDigest,
    Progress,
    RecoveryKey,
    Restore,
    RestoreOutcome,
    SelfBackup,
    To,
)
from sources.models.foresight import Foresight
from sources.models.policy import AtClose, DrillFrom, Policy
from sources.models.repository import Format, Repository, TrialKind
from sources.models.source import AgentToken, EnrolmentCode, Source
