"""Verbs of `database` about the scheduler's own backups, a module each."""

VERBS = {
    "backups": "list the scheduler's own backups: its database, keys and settings",
    "passphrase": "print the passphrase of the scheduler's own backups, for paper",
    "restore": "restore the scheduler on an empty machine from its backup",
}
