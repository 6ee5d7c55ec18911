"""The commands of the scheduler, as `help` lists them for a newcomer."""

GROUPS = {
    "Run it": {
        "init": "set up a new installation, up to its first backup",
        "run": "the whole scheduler on this host: pages, workers and periodic tasks",
        "web": "serve the web pages and the API",
        "worker": "claim backlog records and run them; as many as you like, on as many hosts",
        "qcluster": "run the periodic tasks by the clock",
        "database": "the scheduler's own database, and its backups",
    },
    "Look": {
        "status": "how well the sources are protected, and which need an operator",
        "doctor": "what is wrong with the installation, and what to do",
        "audit": "who changed what",
        "simulate": "run a fleet forward, and grade how well it is protected",
    },
    "Back up and restore": {
        "apply": "make the fleet as a fleet file declares it (`sources export` writes one)",
        "sources": "what is protected: list, add, back up now, pause, retire, enrol …",
        "policies": "how often, in which window, to where: list, add, preview, prune …",
        "repositories": "where backups go: list, add, test, check, copy, key …",
        "restores": "bring backups back, and prove that it works: points, run, drill",
        "secrets": "stored secrets, and the tokens of the API",
    },
    "Deliver events": {
        "schedules": "what triggers batches of events: list, add, trigger, pause, plan …",
        "endpoints": "where events are delivered: list, add, test, rotate …",
    },
    "Operate": {
        "backlog": "all work: list, retry, cancel, pause, hold, breakers, log …",
        "throttles": "caps on records that run at the same instant",
        "alerts": "problems that need an operator now, and the routes by which operators are notified",
    },
}
"""Group → command → its purpose."""


def overview(program: str) -> str:
    """The text of `help`."""
    lines = [
        f"usage: {program} COMMAND [VERB] [OPTIONS]",
        "",
        f"`{program} COMMAND --help` lists verbs and options; `{program} --version` prints the version.",
        "",
    ]
    for group, commands in GROUPS.items():
        lines += [group, *(f"  {name:<14}{what}" for name, what in commands.items()), ""]
    lines += [
        f"Accounts and tables: {program} createsuperuser, changepassword, migrate; all commands: help --commands.",
        f"To try it on a demo fleet on this machine: {program} demo.",
        "When this installation is lost: `backupsched recover REPOSITORY` restores without it.",
    ]
    return "\n".join(lines)
