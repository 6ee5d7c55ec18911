"""A hook of this host and a source that has it."""

from tests.backups.hooks.hook_of_this_host import laptop, log, write

__all__ = ["laptop", "log", "write"]
