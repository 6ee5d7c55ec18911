"""Commands of a worker's host that run before and after the backups of a policy, and when one has failed.

They are listed in a file that only root, or the account of the worker, can write: `sources/declarations/hook_file.py`.
A row picks a name, so a user who edits policies chooses among the hooks of the host and can never write a command.
`running.py` runs them.
"""
