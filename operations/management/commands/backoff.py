import json
import os
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from operations.backlog.rendering import text_of
from operations.backoff import arguments, telling
from operations.backoff.pictures import missing
from operations.backoff.series import check_size
from operations.backoff.subjects import Study, every_algorithm, study
from operations.backoff.themes import THEMES


class Command(BaseCommand):
    help = (
        "Show when the retries of many jobs that failed together would come: as a picture (--output), as figures with "
        "all instants (--json), or as a table. --all shows all algorithms: their figures, and with --output a poster "
        "that also has each at equal mean load. Nothing is changed but the file that is drawn. Exit codes: 0; 2 for "
        "bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        arguments.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._show(options)
        except (ValueError, ValidationError) as error:
            raise CommandError(arguments.problem_of(error), returncode=2) from error

    def _show(self, options: dict[str, Any]) -> None:
        check_size(options["jobs"], options["retries"])
        if options["all"]:
            self._show_all(options)
            return
        form = _form_of_new_file(options) if options["output"] else ""
        studies = [_study(subject, options) for subject in arguments.subjects_of(options)]
        if form:
            from operations.backoff import charts

            picture = charts.draw(studies, form, scale=options["scale"], theme=THEMES[options["theme"]])
            _write(options["output"], picture, force=options["force"])
            if not options["json"]:
                self.stdout.write(f"{options['output']}: {charts.describe(studies)}")
        if options["json"]:
            each = {study.subject.name: telling.facts(study) for study in studies}
            self.stdout.write(json.dumps(each if len(studies) > 1 else telling.facts(studies[0])))
        elif not form:
            self.stdout.write(text_of(telling.view(studies), terminal=self.stdout.isatty()))

    def _show_all(self, options: dict[str, Any]) -> None:
        others = ("what", "compare", "parameters", "set", *arguments.LIMITS)
        given = [name for name in others if options[name]] + (["scale"] if options["scale"] != "auto" else [])
        if given:
            told = "an algorithm or policy" if given[0] == "what" else f"--{given[0].replace('_', '-')}"
            raise ValueError(f"--all shows all algorithms with their defaults; leave out {told}")
        form = _form_of_new_file(options) if options["output"] else ""
        studies = [_study(subject, options) for subject in every_algorithm()]
        if form:
            from operations.backoff import poster

            picture = poster.draw(studies, form, seed=options["seed"], theme=THEMES[options["theme"]])
            _write(options["output"], picture, force=options["force"])
        if options["json"]:
            self.stdout.write(json.dumps({study.subject.name: telling.all_facts(study) for study in studies}, indent=2))
        else:
            self.stdout.write(text_of(telling.view(studies, waits=False), terminal=self.stdout.isatty()))


def _study(subject: Any, options: dict[str, Any]) -> Study:
    return study(subject, jobs=options["jobs"], retries=options["retries"], seed=options["seed"])


def _form_of_new_file(options: dict[str, Any]) -> str:
    """Raises: ValueError for a file that cannot be written, or that is there, before anything is worked out."""
    path: Path = options["output"]
    form = arguments.form_of(options)
    if lacking := missing():
        raise ValueError(lacking)
    try:
        if path.is_dir():
            raise ValueError(f"--output {path} is a directory; name a file in it")
        if not path.parent.is_dir():
            raise ValueError(f"--output {path}: there is no directory {path.parent}; make it first")
        if path.exists() and not options["force"]:
            raise ValueError(f"--output {path} is there already; add --force to overwrite it")
    except OSError as error:
        raise ValueError(f"--output {path}: {error.strerror}") from error
    return form


def _write(path: Path, picture: bytes, *, force: bool) -> None:
    """Write under another name beside it, then give it its own: nobody sees half a picture.

    A file that has come up meanwhile is overwritten only by `force`. Raises: ValueError.
    """
    written = ""
    try:
        handle, written = tempfile.mkstemp(dir=path.parent, prefix=".backoff-")
        with os.fdopen(handle, "wb") as file:
            file.write(picture)
        umask = os.umask(0)
        os.umask(umask)
        Path(written).chmod(0o666 & ~umask)
        if path.exists() and not force:
            raise ValueError(f"--output {path} is there already; add --force to overwrite it")
        Path(written).replace(path)
    except OSError as error:
        raise ValueError(f"--output {path} cannot be written: {error.strerror}") from error
    finally:
        if written:
            Path(written).unlink(missing_ok=True)
