"""A deterministic simulation of the lease protocol: real workers' threads and a real PostgreSQL, one step at a time.

__main__.py    the command: `python -m proving.chaos.protocol --seeds 1000`
play.py        one seed from its world to its verdict; shrinker.py makes a failing one short
scenes.py      what a seed is about; choices.py is what may happen next, and how it is done
world.py       the rows and the actors of a seed; worker.py is one worker process, editor.py edits beside it
actor.py       a thread that parks before each round trip to the database
baton.py       one thread goes on at a time; a step ends when every thread is parked or blocked
backend/       the database backend whose connections park before each round trip
waits.py       events and queues on which a thread waits for its turn instead of for time
clocks.py      the database's clock and the boot clock, which stand still unless they are moved
places.py      places in which handlers end when they are chosen to
books.py       what was seen of records and runs; invariants.py says what must never be
mutants.py     plants faults and counts how many are found
"""
