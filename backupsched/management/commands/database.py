import json
from argparse import ArgumentParser
from dataclasses import asdict
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
        act = {"start": server.ensure_running, "stop": server.stop}.get(options["action"])
        facts = {"changed": act is not None and act(), **asdict(status := server.status())}
        if options["json"]:
            self.stdout.write(json.dumps(facts, default=str))
            return
        state = f"runs (process {status.pid})" if status.running else "does not run"
        self.stdout.write(f"The embedded PostgreSQL {state}.\n  data    {status.data}")
        self.stdout.write(f"  socket  {status.socket_directory}\n  log     {status.log_file}")
