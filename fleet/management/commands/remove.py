from argparse import ArgumentParser
from typing import Any

from backups.upkeep import removals
from declarations.surfaces.commands.base import VerbCommand, person, without_its_log_lines
from declarations.surfaces.terminal import one_line
from fleet.edits import Sources
from fleet.repository_edits import Repositories
from jobs.conf import PROGRAM

SERVICES: dict[str, type[Sources] | type[Repositories]] = {"source": Sources, "repository": Repositories}


class Command(VerbCommand):
    help = (
        "Delete a source or a repository that has backups, in the background: the rows of its backups, and with "
        "--with-backups their files, too. Without, these stay in the repository, with RECOVER.txt, which says how to "
        f"get them back. A source is retired by that. `{PROGRAM} backlog list --kind removal` shows how far it is. To "
        "keep backups as long as their policies say: retire. Exit codes: 0; 2 for bad usage, or when it is in use."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=tuple(SERVICES), help="what to delete")
        parser.add_argument("name", metavar="NAME", help="which one")
        parser.add_argument("--with-backups", action="store_true", help="delete the files of its backups, too")
        parser.add_argument("--yes", action="store_true", help="do it without asking")
        parser.add_argument("--json", action="store_true", help="print {removed, backups, size, repositories, record}")
        parser.set_defaults(verb="remove")

    def _remove(self, options: dict[str, Any]) -> None:
        service = SERVICES[options["what"]]()
        row: Any = service.named(options["name"])
        if text := service.obstacle(row) or ". ".join(service.users(row)):
            raise ValueError(text)
        goes = removals.contents([row])
        files = "files and all" if options["with_backups"] else "whose files stay there"
        shown = one_line(f"{options['what']} {row}, with {goes}, {files}")
        if not self.is_agreed(options, f"Delete {shown}?", "add --yes to delete it"):
            return
        with without_its_log_lines():
            record = removals.start(row, with_backups=options["with_backups"], by=person())
        facts = {"removed": row.name, "backups": goes.backups, "size": goes.size, "record": record.pk}
        facts["repositories"] = goes.repositories
        self.answer(facts, f"{shown}: it is being deleted; `{PROGRAM} backlog show {record.pk}`")
