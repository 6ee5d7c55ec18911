import json
import os
from argparse import ArgumentParser
from functools import partial
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Any

from django.core.management.base import CommandError

from declarations.surfaces.commands.base import TerminalCommand
from external.formatting import reason_of
from fleet.files import formats, writing
from fleet.files.schema import Fleet, exported
from jobs.conf import PROGRAM

HELP = (
    "Write all declarations, and which source is under which policy, as a fleet file that "
    f"`{PROGRAM} apply` reads. References to secrets are written, never a secret."
)
TOO_LARGE = (
    f"This is more than {formats.LARGEST['YAML']:,} bytes of YAML, which `{PROGRAM} apply` takes as JSON alone: "
    "export it with --json, or into a file whose name ends in .json."
)
AT_ONCE = 65_536
"""Characters that are printed at once."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="such as fleet.yaml or fleet.json; else printed as YAML"
    )
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of fleet files, for editors")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    if options["schema"]:
        command.stdout.write(json.dumps(Fleet.model_json_schema(), indent=2))
        return
    file = options["file"]
    form = "JSON" if options["json"] else formats.form_of(file) if file else "YAML"
    with TemporaryFile("w+", encoding="utf-8") as whole:  # a failure in the middle writes nothing
        try:
            whole.writelines(writing.pieces(exported(), form))
            whole.flush()
            if form == "YAML" and os.fstat(whole.fileno()).st_size > formats.LARGEST[form]:
                command.stderr.write(TOO_LARGE)
            whole.seek(0)
            if not file:
                for text in iter(partial(whole.read, AT_ONCE), ""):
                    command.stdout.write(text, ending="")  # Django would end the line in the middle of a word
                return
            with open(file, "w", encoding="utf-8") as written:
                copyfileobj(whole, written)
        except OSError as error:
            raise CommandError(f"cannot write {file or 'it'}: {reason_of(error)}", returncode=2) from error
    command.stdout.write(f"{file} is written")
