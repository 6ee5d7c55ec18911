"""What a process does at a repository by order of a worker (`engines.repository_process`), but for backups.

keeping      removes, checks and copies the points of an assignment
questions    whether a repository can be written to, can be made, or a source read
sightings    whether points are where they are said to be
probing      tries a repository: writes, reads and deletes there
work         how an order is done: it says that it lives, can be stopped, and holds the lock of a folder
"""
