"""The tables of what is backed up, a module each. docs/glossary.md has the words."""

from sources.models.agent_token import AgentToken, EnrolmentCode
from sources.models.assignment import Assignment
from sources.models.backup import Backup
from sources.models.check_round import CheckRound
from sources.models.copy import Copy
from sources.models.pause import Pause
from sources.models.policy import AtClose, DrillFrom, Policy
from sources.models.progress import Progress
from sources.models.repository import Format, Repository
from sources.models.restore import Restore, RestoreOutcome, To
from sources.models.self_backup import RecoveryKey, SelfBackup
from sources.models.source import Source

__all__ = [
    "AgentToken",
    "Assignment",
    "AtClose",
    "Backup",
    "CheckRound",
    "Copy",
    "DrillFrom",
    "EnrolmentCode",
    "Format",
    "Pause",
    "Policy",
    "Progress",
    "RecoveryKey",
    "Repository",
    "Restore",
    "RestoreOutcome",
    "SelfBackup",
    "Source",
    "To",
]
