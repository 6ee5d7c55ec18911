"""A storm over storage: two workers back up, copy, check and remove in the same two repositories, and are killed.

__main__.py    the command: `python -m proving.chaos.storage --kind remote --seconds 60`
site.py        the repositories of a kind, and the leases of the workers there
changing.py    the sources: files that change all the time, and whose content names their version
work.py        the orders of a worker, and its loop until it is killed
storm.py       the disturbances and their instants, drawn from a seed; then all is at rest, and has to work
audit.py       restores points, and compares the result with the source of then and with earlier restores
"""
