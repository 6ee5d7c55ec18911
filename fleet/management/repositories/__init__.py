"""Verbs of `repositories`, a module each."""

VERBS = {
    "check": "read now all that the rounds under way have left in them, and compare it with the manifests",
    "copy": "copy now the points that are missing in them",
    "foreign": "show foreign points: those that were not written as they are by this installation",
    "accept": "accept foreign points as ours",
}
