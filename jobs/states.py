"""The states of a backlog record and of an attempt, each with who moves it out of there.

The numbers are stored (a small integer is measurably cheaper than text at tens of thousands of records a
second) and never change their meaning. docs/lifecycle.md draws the transitions.
"""

from django.db import models


class Status(models.IntegerChoices):
    """The stages in the life of a backlog record."""

    WAITING = 0, "waiting"
    """Not to be looked at before `run_after`; `waiting_for` is the reason. A tick moves it to READY."""
    READY = 1, "ready"
    """Could run now. A claim moves it to RUNNING; a tick moves it back to WAITING when its window closes."""
    RUNNING = 2, "running"
    """Leased by a worker. Its settle moves it on; a rescue does when the lease expires."""
    SUCCEEDED = 3, "succeeded"
    """Done. Final."""
    FAILED = 4, "failed"
    """Gave up after its last allowed failure. Final, until a user retries it."""
    CANCELLED = 5, "cancelled"
    """A user no longer wanted it. Final, until a user retries it."""


UNFINISHED = (Status.WAITING, Status.READY, Status.RUNNING)
FINISHED = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)


class WaitingFor(models.IntegerChoices):
    """The reason why a waiting record waits."""

    START = 1, "start"
    """Its launch time within a staggered batch."""
    WINDOW = 2, "window"
    """The next opening of its window."""
    BACKOFF = 3, "backoff"
    """The delay its retry policy gave after a failure."""
    RECHECK = 4, "recheck"
    """The next contact with a source that did not answer."""
    SNOOZE = 5, "snooze"
    """The instant before which a user did not want it."""
    THROTTLE = 6, "throttle"
    """Another record of the same exclusive key, which is ready or runs."""
    BREAKER = 7, "breaker"
    """The breaker of a target that fails for all of them: it lets one through as a trial, or all."""
    SWEEP = 8, "sweep"
    """The next sweep that covers its age. Time alone only ends that when the last tier no longer covers it."""


class AttemptOutcome(models.IntegerChoices):
    """The end of one attempt at a record."""

    SUCCEEDED = 1, "succeeded"
    FAILED = 2, "failed"
    UNAVAILABLE = 3, "unavailable"
    """Its subject did not answer. Not a failure: it costs no retry."""
    HANDOFF = 4, "handoff"
    """This queue's part is done; the record continues in another queue."""
    CANCELLED = 5, "cancelled"
    RELEASED = 6, "released"
    """Given back unspent, at a clean shutdown. Not a failure."""
    RESCUED = 7, "rescued"
    """The lease expired: the worker died or lost the database. Counts as a failure."""
