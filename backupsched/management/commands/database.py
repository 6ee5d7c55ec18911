import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from backupsched.embedded import Server


class Command(BaseCommand):
    help = (
        "Start, stop or look at the embedded PostgreSQL. It starts by itself when something needs it and goes on "
        "until it is stopped. With DATABASE_URL set there is none."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["start", "stop", "status"])
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if "EMBEDDED_IN" not in settings.DATABASES["default"]:
            raise CommandError("DATABASE_URL is set, so the embedded PostgreSQL is not used", returncode=2)
        server = Server(Path(settings.DATABASES["default"]["EMBEDDED_IN"]))
        changed = _act(server, options["action"])
        status = server.status()
        facts = {
            "running": status.running,
            "changed": changed,
            "pid": status.pid,
            "data": str(status.data),
            "socket_directory": str(status.socket_directory),
            "log_file": str(status.log_file),
        }
        if options["json"]:
            self.stdout.write(json.dumps(facts))
            return
        state = f"runs (process {status.pid})" if status.running else "does not run"
        self.stdout.write(f"The embedded PostgreSQL {state}.\n  data    {status.data}")
        self.stdout.write(f"  socket  {status.socket_directory}\n  log     {status.log_file}")


def _act(server: Server, action: str) -> bool:
    """Do what was asked. Returns whether it changed anything. Raises: EmbeddedDatabaseError."""
    match action:
        case "start":
            return server.ensure_running()
        case "stop":
            return server.stop()
    return False
