"""Verbs of `sources`, a module each."""

VERBS = {
    "explain": "show every reason why backups do not run, now or at a time; --all",
    "backup-now": "back them up now, regardless of period and window",
    "when": "show when their backups are expected to start, or why there is no estimate",
    "pause": "make no more backups, until a time or until they are resumed",
    "resume": "back them up again",
    "retire": "take them out of use, and keep their backups as long as their policies say; --undo",
    "preview": "show their next periods and windows",
    "enrol": "make a code with which the agent of a source gets its token",
    "held-back": "list those whose last backup looked wrong, of which nothing is removed",
    "accept": "accept backups that are held back: their points are removed again as their policies say",
    "check": "show the last readings and comparisons with the manifests, or read some sources completely now",
    "copy": "show the copies in other repositories, or copy some sources now",
    "prune": "remove the points that their policies do not keep",
    "export": "write everything that is declared as a fleet file, which `apply` reads",
}
