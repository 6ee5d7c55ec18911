"""Backups as a worker handles them: a source is asked, and copied."""

from asgiref.sync import async_to_sync

from backups.copying.handler import copy_source
from jobs.handlers import Run
from jobs.outcomes import Outcome
from sources.availability.check import ask_source
from sources.models import Assignment
from tests.sources.factories import claimed_for


def ask(assignment: Assignment) -> Outcome:
    return async_to_sync(ask_source)(Run(claimed_for(assignment)))


def copy(assignment: Assignment) -> Outcome:
    return copy_source(Run(claimed_for(assignment, queue="backups")))
