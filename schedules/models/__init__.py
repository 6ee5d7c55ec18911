from schedules.models.schedule import Late, Overlap, Schedule, Stagger
from schedules.models.trigger import Trigger

__all__ = ["Late", "Overlap", "Schedule", "Stagger", "Trigger"]
