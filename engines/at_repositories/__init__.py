"""Orders that a process carries out at a repository for a worker (`engines.repository_process`), except backups.

point_upkeep  removes, checks and copies the points of an assignment
questions     asks whether a repository can be written to or made, or a source can be read
sightings     looks for points in their places
probing       tries a repository: writes, reads and deletes there
confinement   lets the process write in the repository, and nowhere else
work          carries out an order: reports that it is alive, can be stopped, and holds the lock of a folder
"""
