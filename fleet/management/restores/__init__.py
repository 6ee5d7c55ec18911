"""Verbs of `restores`, a module each."""

VERBS = {
    "points": "show the points of a source, or what a folder held in one",
    "run": "restore into a folder on this host, back to the source, or into a new database, without a worker",
    "drill": "show the points that were last proved restorable, or drill some sources now",
}
