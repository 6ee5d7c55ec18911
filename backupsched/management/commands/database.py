from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from backupsched.embedded import Server
from backupsched.embedded.upgrade import upgrade
from declarations.surfaces.commands.nouns import NounCommand

VERBS = {
    "start": "start the embedded PostgreSQL, unless it runs",
    "stop": "stop the embedded PostgreSQL",
    "status": "look at the embedded PostgreSQL, as without a verb",
}


class Command(NounCommand):
    help = (
        "The database of the scheduler: the embedded PostgreSQL, which starts when something needs it and runs "
        "until it is stopped (there is none if DATABASE_URL is set); and the backups of the scheduler itself. "
        "Exit codes: 0; 2 for bad usage, or when it cannot be done."
    )
    requires_system_checks = []
    needs_tables = False
    examples = {
        "restore": "/mnt/backups --at 2026-03-02",
        "upgrade": "--old-programs /usr/lib/postgresql/17/bin",
    }

    def add_verbs(self, verbs: Any) -> None:
        for verb, what in VERBS.items():
            self.add_verb(verbs, verb, what)

        upgrade = self.add_verb(
            verbs,
            "upgrade",
            "move the embedded PostgreSQL's data to the installed major version; run it again if killed",
        )
        upgrade.add_argument(
            "--old-programs", type=Path, metavar="FOLDER",
            help="the programs of the version that made the data (default: those of this host)",
        )  # fmt: skip

    def _list(self, options: dict[str, Any]) -> None:
        self._status(options)

    def _start(self, options: dict[str, Any]) -> None:
        server = self._server()
        self._report(server, changed=server.ensure_running())

    def _stop(self, options: dict[str, Any]) -> None:
        server = self._server()
        self._report(server, changed=server.stop())

    def _upgrade(self, options: dict[str, Any]) -> None:
        server = self._server()
        kept = upgrade(server.layout.var_dir, options["old_programs"], lambda text: self.stderr.write(text))
        said = f"The old data are kept in {kept}: delete them when all is well." if kept else "Nothing to upgrade."
        self.answer({"changed": kept is not None, "old_data": kept and str(kept)}, said)

    def _status(self, options: dict[str, Any]) -> None:
        self._report(self._server(), changed=False)

    def _server(self) -> Server:
        if "EMBEDDED_IN" not in settings.DATABASES["default"]:
            raise CommandError("DATABASE_URL is set, so the embedded PostgreSQL is not used", returncode=2)
        return Server(Path(settings.DATABASES["default"]["EMBEDDED_IN"]))

    def _report(self, server: Server, *, changed: bool) -> None:
        status = server.status()
        state = f"runs (process {status.pid})" if status.running else "does not run"
        lines = (
            f"The embedded PostgreSQL {state}.",
            f"  data    {status.data}",
            f"  socket  {status.socket_directory}",
            f"  log     {status.log_file}",
        )
        facts = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(status).items()}
        self.answer({"changed": changed} | facts, "\n".join(lines))
