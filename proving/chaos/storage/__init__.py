"""A storm over storage: two workers back up, copy, check and remove in the same two repositories, and are killed.

__main__.py    the command: `python -m proving.chaos.storage --kind remote --seconds 60`
site.py        the repositories of a kind, and the leases of who works there
changing.py    the sources: files that change all the time, and say by their content which version they are
work.py        what a worker orders, and how it goes on until it is killed
storm.py       what goes wrong, and when: drawn from a seed; then all is at rest, and has to work
audit.py       restores points, and compares what comes out with what was there and with what came out before
"""
