from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db.models import QuerySet

from declarations.service import Edit
from declarations.surfaces.commands.declared_commands import DeclaredCommand
from declarations.surfaces.terminal import columns, one_line
from fleet.management import removal
from fleet.repository_edits import KEEP_THE_KEY, Repositories
from jobs.conf import PROGRAM
from sources.availability.repository_breaker import OPEN_BREAKER_OF_REPOSITORY
from sources.models import Format, Repository
from storage import layout
from storage.places.location import RESTIC, joined
from storage.places.remotes import REST_SERVER
from storage.points.store import StorageFailed

PAPER = """The key of repository {name}. It opens every backup in it: keep it as you keep the backups' contents.

    {key}

The repository: {where}. To restore without the scheduler, write the key into a file, and then:

    backupsched recover REPOSITORY --key-file FILE --list
    backupsched recover REPOSITORY --key-file FILE --to DIRECTORY

{alone}"""
STEP_BY_STEP = "\nRECOVER.txt in the repository has the steps."


class Command(DeclaredCommand):
    help = (
        "Repositories: where backups go, directories on this host and remotes of rclone. Alone, or with list: "
        "all of them. A repository is tried before it is added or changed: a file is written, read, changed "
        "and deleted there. Exit codes: 0; 1 when one cannot be used, or is in use; 2 for bad usage, with "
        "nothing saved, or when the database does not answer."
    )
    service, positional = Repositories, ("name", "location")
    columns = columns("name", "format", "kind", "location", "encrypted", "breaker")
    empty = f"There are no repositories yet: `{PROGRAM} repositories add NAME LOCATION` makes one."
    shown_once = {"new_key": "key"}
    examples = {
        "add": 'cloud bucket/backups --encrypted --set remote=\'{"type": "s3", "provider": "Other", "endpoint": '
        '"https://s3.example.org", "access_key_id": "me"}\' --set secrets=\'{"secret_access_key": "stored:cloud"}\'',
        "set": "cloud --name archive",
        "key": "cloud",
    }  # fmt: skip

    def add_to_changes(self, changes: ArgumentParser) -> None:
        changes.add_argument(
            "--take-over", action="store_true", help="use also what another installation, which is gone, has made"
        )
        changes.add_argument(
            "--force", action="store_true",
            help="also where other files are, or where its points are not, whose sources are doubtful from then on",
        )  # fmt: skip

    def remove_arguments(self, parser: ArgumentParser) -> None:
        removal.add_arguments(parser)

    def add_more_verbs(self, verbs: Any) -> None:
        self.add_each(verbs, "test", "write, read, change and delete there, and report whether that works")
        self.add_each(verbs, "key", "print the key of an encrypted one, for paper")

    def rows(self) -> QuerySet[Any]:
        return Repository.objects.annotate(open_breaker=OPEN_BREAKER_OF_REPOSITORY).order_by("name")

    def facts(self, row: Any) -> dict[str, Any]:
        """The facts about a repository; in the list also the state of its breaker."""
        breaker = {"breaker": "open" if row.open_breaker else "closed"} if hasattr(row, "open_breaker") else {}
        seen = {"identity": str(row.identity), "away": row.away_why}
        kind = {"id": row.pk, "kind": row.remote.get("type", "directory")}
        return kind | Repositories().values(row) | seen | breaker

    def cells(self, facts: dict[str, Any]) -> tuple[object, ...]:
        encrypted = "yes" if facts["encrypted"] else "no"
        return facts["name"], facts["format"], facts["kind"], facts["location"], encrypted, facts["breaker"]

    def made_service(self, options: dict[str, Any]) -> Repositories:
        made = Repositories()
        made.take_over, made.force = options.get("take_over", False), options.get("force", False)
        return made

    def edited(self, edit: Edit, options: dict[str, Any]) -> None:
        super().edited(edit, options)
        self.warn(edit.row, [KEEP_THE_KEY] if edit.row.new_key else [])

    def _test(self, options: dict[str, Any]) -> None:
        repository = self.found(options)
        try:
            found = Repositories().test(repository)
        except StorageFailed as error:
            found = {"problem": str(error)}
        problem = found.get("problem")
        if self.json or not problem:
            facts = {"usable": not problem, "problem": problem}
            notices = "".join(f"; {each}" for each in found.get("notices", ()))
            text = f"{one_line(repository)} was written, read and deleted{notices}"
            self.answer({"name": repository.name} | facts, text)
        if problem:
            raise CommandError(f"{one_line(repository)}: {one_line(problem)}", returncode=1)

    def _remove(self, options: dict[str, Any]) -> None:
        removal.remove(self, self.service(), self.all_found(options), options)

    def _key(self, options: dict[str, Any]) -> None:
        repository = self.found(options)
        key = Repositories().key(repository)
        kind = repository.remote.get("type")
        where = f"{repository.location}, of a remote of type {kind}" if kind else repository.location
        paper = PAPER.format(name=one_line(repository), key=key, where=where, alone=_alone(repository))
        self.answer({"name": repository.name, "key": key}, paper)


def _alone(repository: Repository) -> str:
    """A sentence about how to open it with the key if this program is gone."""
    if repository.remote.get("type") == REST_SERVER:
        return f"With restic alone: its repository is {repository.location} at the server, its password this key."
    if repository.format == Format.RESTIC:
        inner = joined(repository.location, RESTIC)
        return f"With restic alone: its repository is the folder {inner}, its password this key.{STEP_BY_STEP}"
    inner = joined(repository.location, layout.ENCRYPTED)
    return (
        f"With rclone alone: a remote of type crypt above the folder {inner}, its password this key, without a second "
        f"one.{STEP_BY_STEP}"
    )
