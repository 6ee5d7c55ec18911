"""Verbs of `backlog` that know sources and policies, a module each."""

VERBS = {"log": "print the log of decisions, of all or of one source or policy"}
