import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from rich.console import Group, RenderableType
from rich.text import Text

from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import columns, plain, table
from external.durations import duration
from external.formatting import reason_of
from jobs import retries
from jobs.models import RetryPolicy
from operations.backoff import FORMATS, LIMITS, SCALES, THEMES
from operations.backoff.study import JOBS, RETRIES, Study, apart, check_size, every_algorithm, study
from operations.backoff.views import missing
from operations.backoff.waits import HEADERS, describe, describe_giving_up, describe_waits, row
from operations.declarations import in_seconds

SHOWN_NAMES = 20
WHAT = "an algorithm with its defaults, or a retry policy's name; policy:NAME for one that is called like an algorithm"


NEEDS_TABLES = False  # a picture of an algorithm
HELP = (
    "Show when the retries of many jobs that failed together would come: as a picture (--output), as figures with "
    "all instants (--json: `retries` is a list of instants a job, in seconds since the first failure), or as a table. "
    "--all shows all algorithms: their figures, and with --output a poster that also has each at equal mean load. "
    "Nothing is changed but the file that is drawn. Exit codes: 0; 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("what", nargs="?", metavar="ALGORITHM|POLICY", help=WHAT)
    add("--all", action="store_true", help="all algorithms, with their defaults")
    add("--compare", metavar="ALGORITHM|POLICY", help="another one, side by side")
    add("--jobs", type=int, default=JOBS, metavar="N", help=f"that fail together ({JOBS})")
    add("--retries", type=int, default=RETRIES, metavar="N", help=f"of each job at most ({RETRIES})")
    add("--seed", type=int, default=0, metavar="N", help="of the random numbers: the same seed draws the same picture")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the algorithm, such as unit=15m",
    )
    add("--max-delay", type=duration(), metavar="DURATION", help="the longest wait (no limit)")
    add("--max-failures", type=int, metavar="N", help="give up at this many failures")
    add("--give-up-after", type=duration(), metavar="DURATION", help="give up this long after the first one")
    add("--output", type=Path, metavar="FILE", help="draw into a file that ends in .svg or .png")
    add("--force", action="store_true", help="overwrite the file")
    add("--scale", choices=SCALES, default="auto", help="of the time axis (auto)")
    add("--theme", choices=THEMES, default="light", help="colours (light)")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    try:
        _show(command, options)
    except ValidationError as error:
        problems = (f"{name.replace('_', ' ')}: {' '.join(texts)}" for name, texts in error.message_dict.items())
        raise ValueError("; ".join(problems)) from error


def _show(command: TerminalCommand, options: dict[str, Any]) -> None:
    check_size(options["jobs"], options["retries"])
    everything, path = options["all"], options["output"]
    rules = _every_rule(options) if everything else _rules(options)
    form = _form_of(path) if path else ""
    sizes = {name: options[name] for name in ("jobs", "retries", "seed")}
    studies = [study(name, rule, **sizes) for name, rule in rules]
    if form:
        from operations.backoff import charts, poster

        theme, scale = options["theme"], options["scale"]
        drawn = (
            poster.draw_all(studies, form, theme=theme)
            if everything
            else charts.draw(studies, form, scale=scale, theme=theme)
        )
        _write(path, drawn, force=options["force"])
    if options["json"]:
        each = {study.name: study.as_json(instants=not everything) for study in studies}
        found = each if len(each) > 1 else each[studies[0].name]
        command.stdout.write(json.dumps(found, indent=2 if everything else None))
    elif form and not everything:
        command.stdout.write(f"{path}: {describe(studies)}")
    else:
        command.print_out(_view(studies, waits=not everything))


def _view(studies: list[Study], *, waits: bool) -> RenderableType:
    """The table of figures, and for each study its waits and when it gives up."""
    first = studies[0]
    head = Text(f"{len(first.jobs):,} jobs that fail together, {first.wanted:,} retries of each at most", style="bold")
    parts: list[RenderableType] = [
        head,
        table(columns("", *(f"{header}>" for header in HEADERS[1:])), map(row, studies)),
    ]
    for each in studies if waits else ():
        name = plain(each.name)
        name.stylize("bold")
        about = (each.described_rule, f"first waits: {describe_waits(each.rule)}", describe_giving_up(each.rule))
        parts += [name, *map(plain, about)]
    return Group(*parts)


def _every_rule(options: dict[str, Any]) -> list[tuple[str, retries.Rule]]:
    given = [name for name in ("what", "compare", "set", *LIMITS) if options[name]]
    given += ["scale"] if options["scale"] != "auto" else []
    if given:
        named = "an algorithm or policy" if given[0] == "what" else f"--{given[0].replace('_', '-')}"
        raise ValueError(f"--all shows all algorithms with their defaults; leave out {named}")
    return list(every_algorithm())


def _rules(options: dict[str, Any]) -> list[tuple[str, retries.Rule]]:
    """The rules to show, one or two. Raises: ValueError for unknown ones, ValidationError for invalid ones."""
    what, given = options["what"], dict(_parameter(each) for each in options["set"])
    limits = {name: options[name] for name in LIMITS if options[name] is not None}
    if not what:
        raise ValueError(f"name an algorithm ({', '.join(sorted(retries.ALGORITHMS))}) or a retry policy, or --all")
    first = _named(what)
    if given or limits:
        if what not in retries.ALGORITHMS:
            raise ValueError(
                f"{first[0]!r} is a retry policy, which has its own parameters and limits; "
                f"to try others, name its algorithm: {first[1].algorithm}"
            )
        first = what, retries.Rule(what, in_seconds(what, given), **limits)
        retries.validate(first[1])
    return apart([first, _named(options["compare"])] if options["compare"] else [first])


def _named(name: str) -> tuple[str, retries.Rule]:
    """An algorithm with its defaults, else the retry policy of that name; `policy:NAME` is always the latter."""
    if name in retries.ALGORITHMS:
        return name, retries.Rule(name)
    name = name.removeprefix("policy:")
    policy = None if "\0" in name else RetryPolicy.objects.filter(name=name).first()
    if policy is None:
        names = list(RetryPolicy.objects.order_by("name").values_list("name", flat=True)[: SHOWN_NAMES + 1])
        known = ", ".join(names[:SHOWN_NAMES]) + (" …" if len(names) > SHOWN_NAMES else "")
        raise ValueError(
            f"there is no algorithm and no retry policy {name!r}; the algorithms are "
            f"{', '.join(sorted(retries.ALGORITHMS))}; the retry policies are: {known or 'none'}"
        )
    retries.validate(policy.as_rule())
    return name, policy.as_rule()


def _parameter(written: str) -> tuple[str, Any]:
    """A number if the text is one; jitter is a word."""
    name, separator, value = written.partition("=")
    if not name or not separator:
        raise ValueError(f"--set {written!r} is not NAME=VALUE, such as unit=15")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _form_of(path: Path) -> str:
    """Raises: ValueError, before anything is computed."""
    if (form := path.suffix.lower().removeprefix(".")) not in FORMATS:
        raise ValueError(f"--output {path}: a picture's name ends in .svg or .png")
    if lacking := missing():
        raise ValueError(lacking)
    return form


def _write(path: Path, picture: bytes, *, force: bool) -> None:
    """Raises: ValueError for a file that exists, or cannot be written; half a picture is not left behind."""
    try:
        with path.open("wb" if force else "xb") as file:
            try:
                file.write(picture)
                file.flush()
            except OSError:
                path.unlink()
                raise
    except FileExistsError as error:
        raise ValueError(f"--output {path} exists already; add --force to overwrite it") from error
    except OSError as error:
        raise ValueError(f"--output {path} cannot be written: {reason_of(error)}") from error
