"""The backups to come, foreseen by running the queue forward many times.

presence.py   the times at which a source was there, from what was seen of it
sightings.py  what was seen: answers, silences, copies and check-ins, as they were recorded
habits.py     the rest of today as its earlier days were
runs.py       the queue run forward: who is protected, and when each starts
intervals.py  the interval in which a backup starts
contenders.py  what is due, with its place and the habit of its source
durations.py  how long backups took
at_risk.py    assignments that will probably miss their period, kept for pages and commands
"""
