"""A source is copied into its repository: the handler of the kind `backup`, and the effects of its outcome.

*Copying* is the backup. *Copies* are second copies of points in another repository: `backups/upkeep/copies.py`.
"""
