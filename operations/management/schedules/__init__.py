"""Verbs of `schedules`, a module each."""

VERBS = {"preview": "show its next triggers, and when the events of each start"}
