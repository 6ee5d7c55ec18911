"""Verbs of `repositories`, a module each."""

VERBS = {
    "check": "read now all that the rounds under way have left in them, and compare it with the manifests",
    "copy": "copy now what they lack of the sources that are copied to them",
    "foreign": "show the points that no backup of ours has written as they are",
    "accept": "accept foreign points as ours",
}
