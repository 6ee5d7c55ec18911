"""The records that work on repositories.

copying             a source into its repository: the handler of `backup`, and the effects of its outcome
upkeep              retention, checks, copies, looks and removals
restores            restores and drills
hooks               commands on this host around a backup
self_backup         the scheduler's own backup, and the way back
repository_orders   questions and orders to a repository, in processes that can be killed
locations           a repository's row as storage sees it
holdings            the repositories that hold points of an assignment
known_points        the points that are ours
repository_state    facts about a repository: writable, its room, taken
specifications      a source as engines see it
connection_check    *Test connection*
progress            the progress of a record
trying_again        tries failed records again, once a secret or a place has changed
"""
