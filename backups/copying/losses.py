"""Outcomes of records whose source was lost in mid-backup: `sources/domain/losses.py` has the rule."""

import dataclasses

from jobs.outcomes import Handoff, Outcome, Unavailable
from sources import planning
from sources.models import Assignment, Policy

NOTICED_WITHIN_SECONDS = 60.0
"""The time in which an engine notices that a source is gone, its own retries included."""


def vanished(policy: Policy, silence: str) -> Unavailable:
    """The outcome for a source that stopped answering, so that its copy was ended when its grace was over."""
    return Unavailable(f"it vanished in mid-backup: {silence}", policy.recheck_after, silent_for=policy.vanish_grace)


def lost(policy: Policy, reason: str) -> Unavailable:
    """The outcome for a source that went away, as its engine noticed: it is asked again after the grace, first in line,
    and not by this unit.
    """
    first = policy.vanish_grace > 0
    recheck_after = policy.vanish_grace if first else policy.recheck_after
    return Unavailable(f"it went away: {reason}", recheck_after, first_in_line=first, silent_for=NOTICED_WITHIN_SECONDS)


def counted(outcome: Outcome, assignment: Assignment) -> Outcome:
    """The same outcome, unless the source was lost now and the time before, too, or in its first backup: then it ranks
    after the sources that are there.
    """
    if not isinstance(outcome, Unavailable) or assignment.loss.next_is_forgiven:
        return outcome
    recheck_after = assignment.policy.recheck_after
    return dataclasses.replace(outcome, recheck_after=recheck_after, first_in_line=False, lost_again=True)


def asked_again(assignment: Assignment, why: str) -> Handoff:
    """The outcome for a source that answered too long ago for a unit to be spent on it."""
    lost_at = assignment.loss.demoted_since
    return Handoff(planning.AVAILABILITY if lost_at else planning.ARRIVALS, found=why, lost_at=lost_at)
