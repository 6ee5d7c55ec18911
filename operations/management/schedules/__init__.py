"""Verbs of `schedules`, a module each."""

VERBS = {
    "preview": "show its next triggers, and when the events of each start",
    "explain": "show why it did not fire at a time, or when it fires next",
}
