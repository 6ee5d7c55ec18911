"""Verbs of `policies`, a module each."""

VERBS = {
    "pause": "make no more backups under them, until a time or until they are resumed",
    "resume": "back up under them again",
    "preview": "show the next periods of a policy, with the openings of its window",
    "prune": "remove the points that they do not keep",
    "backoff": "show when a retry policy, or an algorithm, would try again",
}
