import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from declarations.surfaces.commands.base import TerminalCommand
from external.formatting import reason_of
from fleet.files import formats
from fleet.files.schema import Fleet, export_fleet


class Command(TerminalCommand):
    help = (
        "Write everything that is declared, and which source is under which policy, as a fleet file that `apply` and "
        "`import_fleet` read. References to secrets are written, never a secret."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", nargs="?", help="as fleet.yaml or fleet.json; else printed as YAML")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--schema", action="store_true", help="print the JSON Schema of fleet files, for editors")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["schema"]:
            self.stdout.write(json.dumps(Fleet.model_json_schema(), indent=2))
            return
        file = options["file"]
        form = "JSON" if options["json"] else formats.form_of(file) if file else "YAML"
        text = formats.write(export_fleet(), form)
        if not file:
            self.stdout.write(text, ending="")
            return
        try:
            Path(file).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"cannot write {file}: {reason_of(error)}", returncode=2) from error
        self.stdout.write(f"{file} is written")
