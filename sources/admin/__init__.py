"""Sources, policies and backups in Django's admin."""

from sources.admin.backups import AssignmentAdmin, BackupAdmin
from sources.admin.policies import PolicyAdmin
from sources.admin.repositories import RepositoryAdmin
from sources.admin.restores import RestoreAdmin
from sources.admin.sources import SourceAdmin
from sources.admin.stored_secrets import StoredSecretAdmin

__all__ = [
    "AssignmentAdmin",
    "BackupAdmin",
    "PolicyAdmin",
    "RepositoryAdmin",
    "RestoreAdmin",
    "SourceAdmin",
    "StoredSecretAdmin",
]
