"""The backups to come, foreseen by running the queue forward many times.

presence.py   the times at which a source was there, by its sightings
sightings.py  sightings: answers, silences, copies and check-ins, as they were recorded
habits.py     the rest of today, by the source's earlier days
runs.py       the queue run forward: which assignments are protected, and when each starts
intervals.py  the interval in which a backup starts
contenders.py  due assignments, with their places and the habits of their sources
durations.py  durations of backups
at_risk.py    assignments that will probably miss their period, kept for pages and commands
"""
