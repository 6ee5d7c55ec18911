"""What a person asks of `manage.py backoff`, read from the command line and checked."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError

from jobs import retries
from jobs.management.arguments import duration
from jobs.models import RetryPolicy
from operations.backoff.axes import SCALES
from operations.backoff.subjects import JOBS, RETRIES, Subject, apart
from operations.backoff.themes import THEMES

FORMATS = ("svg", "png")
LIMITS = ("max_delay", "max_failures", "give_up_after")
SHOWN_NAMES = 20
WHAT = "an algorithm with its defaults, or a retry policy's name; policy:NAME for one that is called like an algorithm"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", metavar="ALGORITHM|POLICY", help=WHAT)
    parser.add_argument("--all", action="store_true", help="all algorithms, with their defaults")
    parser.add_argument("--compare", metavar="ALGORITHM|POLICY", help="another one, side by side")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help=f"that fail together ({JOBS})")
    parser.add_argument("--retries", type=int, default=RETRIES, metavar="N", help=f"of each job at most ({RETRIES})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of chance: the same one, the same picture")
    parser.add_argument("--parameters", metavar="JSON", help="""of the algorithm, as '{"unit": 15}'""")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one parameter, as unit=15")
    parser.add_argument("--max-delay", type=duration(), metavar="DURATION", help="no wait is longer (any)")
    parser.add_argument("--max-failures", type=int, metavar="N", help="give up at this many failures")
    parser.add_argument(
        "--give-up-after", type=duration(), metavar="DURATION", help="give up this long after the first one"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="draw into a file that ends in .svg or .png")
    parser.add_argument("--format", choices=FORMATS, help="of the file; otherwise its name says it")
    parser.add_argument("--force", action="store_true", help="overwrite the file")
    parser.add_argument("--scale", choices=SCALES, default="auto", help="of the time axis (auto)")
    parser.add_argument("--theme", choices=sorted(THEMES), default="light", help="colours (light)")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the figures and `retries`, a list of instants a job, in seconds since the first failure",
    )


def subjects_of(options: dict[str, Any]) -> list[Subject]:
    """What is to be shown: one subject or two. Raises: ValueError for what there is not, ValidationError likewise."""
    if not options["what"]:
        raise ValueError(f"name an algorithm ({', '.join(sorted(retries.ALGORITHMS))}) or a retry policy, or --all")
    subjects = [_changed(_named(options["what"]), options)]
    if options["compare"]:
        subjects.append(_named(options["compare"]))
    return apart(subjects)


def _named(name: str) -> Subject:
    """An algorithm with its defaults, else the retry policy of that name; `policy:NAME` is always the latter."""
    if name in retries.ALGORITHMS:
        return Subject(name, retries.Rule(name))
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
    return Subject(name, policy.as_rule())


def _changed(subject: Subject, options: dict[str, Any]) -> Subject:
    """The subject with the parameters and limits that were given; they go with an algorithm only."""
    parameters = _parameters(options)
    limits = {name: options[name] for name in LIMITS if options[name] is not None}
    if not parameters and not limits:
        return subject
    if options["what"] not in retries.ALGORITHMS:
        raise ValueError(
            f"{subject.name!r} is a retry policy, which has its own parameters and limits; "
            f"to try others, name its algorithm: {subject.rule.algorithm}"
        )
    rule = retries.Rule(subject.name, parameters, **limits)
    retries.validate(rule)
    return Subject(subject.name, rule)


def _parameters(options: dict[str, Any]) -> dict[str, Any]:
    given: Any = {}
    if options["parameters"] is not None:
        try:
            given = json.loads(options["parameters"])
        except (ValueError, RecursionError) as error:
            raise ValueError(f"""--parameters is not JSON ({error}); write it as '{{"unit": 15}}'""") from error
        if not isinstance(given, dict):
            raise ValueError("""--parameters must be an object, as '{"unit": 15}'""")
    for written in options["set"]:
        name, separator, value = written.partition("=")
        if not name or not separator:
            raise ValueError(f"--set {written!r} is not NAME=VALUE, as unit=15")
        given[name] = _number(value)
    return dict(given)


def _number(written: str) -> int | float | str:
    """A number if it is one; jitter is a word."""
    for kind in (int, float):
        try:
            return kind(written)
        except ValueError:
            continue
    return written


def form_of(options: dict[str, Any]) -> str:
    """`svg` or `png`, as the option or the file's name says. Raises: ValueError when neither does, or both disagree."""
    path: Path = options["output"]
    suffix = path.suffix.lower().removeprefix(".")
    asked: str | None = options["format"]
    if suffix not in FORMATS and (asked is None or suffix):
        raise ValueError(f"--output {path}: a picture's name ends in .svg or .png")
    if asked and suffix and suffix != asked:
        raise ValueError(f"--output {path} ends in .{suffix}, but --format says {asked}: leave one of them out")
    return asked or suffix


def problem_of(error: ValueError | ValidationError) -> str:
    """What is wrong, as one sentence."""
    if not isinstance(error, ValidationError):
        return f"{error}"
    return "; ".join(f"{name.replace('_', ' ')}: {' '.join(texts)}" for name, texts in error.message_dict.items())
