"""A deterministic simulation of the lease protocol: real workers' threads and a real PostgreSQL, one step at a time.

__main__.py    the command: `python -m proving.chaos.protocol --seeds 1000`
play.py        one seed from its world to its verdict; shrinker.py shortens a failing one
scenes.py      the theme of a seed; choices.py has the possible next steps, and does them
world.py       the rows and the actors of a seed; worker.py is one worker process, editor.py edits next to it
actor.py       a thread that parks before each round trip to the database
baton.py       resumes one thread at a time; a step ends when every thread is parked or blocked
backend/       the database backend whose connections park before each round trip
waits.py       events and queues on which a thread waits for its turn instead of time
clocks.py      the database's clock and the boot clock, which stand still unless they are moved
places.py      places whose handlers end when a choice says so
books.py       the records and runs as seen after a step; invariants.py has the rules for them
mutants.py     plants faults and counts those that are found
"""
