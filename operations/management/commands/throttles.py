import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db.utils import Error

from jobs import throttle_verbs, throttles
from jobs.durations import span
from jobs.models import Throttle
from jobs.throttles import Live
from operations.backlog.rendering import Column, plain, table, text_of
from operations.management.base import TerminalCommand, describe_taken_name, unanswered
from schedules.models import Schedule

COLUMNS = (
    Column("throttle"), Column("in flight", number=True), Column("of", number=True), Column("ready", number=True),
    Column("waiting", number=True), Column("rate"), Column("tokens"), Column("next token"), Column(""),
)  # fmt: skip
NO_RATE = "none"


class Command(TerminalCommand):
    help = (
        "Show the throttles with what runs, is ready and waits under each, and change them while they are at work: "
        "the next claim goes by it, what runs goes on. Alone: all of them. show NAME: one, and what names it. "
        "add NAME --max-in-flight N: make one. set NAME: give it other values. pause NAME: let nothing more begin. "
        "resume NAME N: let N run at a time again. remove NAME: delete it, once nothing names it. Exit codes: 0; 1 "
        "when a throttle that is in use is not removed; 2 for bad usage, or when the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print [{name, max_in_flight, in_flight, tokens, …}]")
        verbs = parser.add_subparsers(
            dest="verb", metavar="list | show | add | set | pause | resume | remove", parser_class=CommandParser
        )
        listing = verbs.add_parser("list", help="show them all, as without a word")
        adding = verbs.add_parser("add", help="make a throttle")
        setting = verbs.add_parser("set", help="give a throttle other values")
        for verb in (adding, setting):
            needed = verb is adding
            verb.add_argument("name", metavar="NAME")
            most = "how many may run at once; 0 pauses it"
            verb.add_argument("--max-in-flight", type=int, metavar="N", required=needed, help=most)
            verb.add_argument("--rate", type=_rate, metavar="R", help="how many may begin a second, or `none`")
            verb.add_argument("--burst", type=_burst, metavar="N", help="how many at once after a pause, or `none`")
        pausing = verbs.add_parser("pause", help="let nothing more of it begin")
        pausing.add_argument("name", metavar="NAME")
        resuming = verbs.add_parser("resume", help="let so many of it run again")
        resuming.add_argument("name", metavar="NAME")
        resuming.add_argument("max_in_flight", type=int, metavar="N", help="how many may run at once")
        showing = verbs.add_parser("show", help="show one, and the schedules that name it")
        showing.add_argument("name", metavar="NAME")
        removing = verbs.add_parser("remove", help="delete it, once no schedule and no unfinished record names it")
        removing.add_argument("name", metavar="NAME")
        removing.add_argument("--yes", action="store_true", help="do not ask")
        for verb in (listing, showing, adding, setting, pausing, resuming):
            verb.add_argument("--json", action="store_true", dest="json_after", help="print what it is now")
        removing.add_argument("--json", action="store_true", dest="json_after", help="print {removed}")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._do(options)
        except throttle_verbs.NoSuchThrottle as error:
            raise CommandError(plain(error).plain, returncode=2) from None
        except throttle_verbs.InUse as error:
            raise CommandError(plain(error).plain, returncode=1) from None
        except ValidationError as error:
            raise CommandError(_describe_error(error, options), returncode=2) from None
        except Error as error:
            raise unanswered(error) from error

    def _do(self, options: dict[str, Any]) -> None:
        verb = None if options["verb"] == "list" else options["verb"]
        as_json = options["json"] or options.get("json_after", False)
        if verb == "show":
            self._show(options["name"], as_json)
        elif verb == "remove":
            self._remove(options["name"], as_json, sure=options["yes"])
        else:
            self._list_or_change(verb, options, as_json)

    def _list_or_change(self, verb: str | None, options: dict[str, Any], as_json: bool) -> None:
        ids = [_changed(verb, options).pk] if verb else None
        found = throttles.live(ids)
        if as_json:
            self.stdout.write(json.dumps([_facts(one) for one in found], cls=DjangoJSONEncoder, ensure_ascii=False))
        elif not found:
            self.stdout.write("There are no throttles yet: `manage.py throttles add NAME --max-in-flight N` makes one.")
        else:
            self.stdout.write(text_of(table(COLUMNS, map(_row, found)), terminal=self.stdout.isatty()))
        if verb:
            for line in throttle_verbs.warnings(found[0].throttle, found[0]):
                self.stderr.write(self.style.WARNING(f"{plain(found[0].throttle.name).plain}: {line}"))

    def _show(self, name: str, as_json: bool) -> None:
        throttle = throttle_verbs.find(name)
        [live] = throttles.live([throttle.pk])
        named_by = Schedule.objects.filter(throttle=throttle).order_by("name").values_list("name", flat=True)
        facts = _facts(live) | {"schedules": list(named_by)}
        if as_json:
            self.stdout.write(json.dumps(facts, cls=DjangoJSONEncoder, ensure_ascii=False))
            return
        self.print_out(table(COLUMNS, [_row(live)]))
        self.stdout.write(f"schedules: {plain(', '.join(named_by) or 'none').plain}")
        for line in throttle_verbs.warnings(throttle, live):
            self.stderr.write(self.style.WARNING(f"{plain(throttle.name).plain}: {line}"))

    def _remove(self, name: str, as_json: bool, *, sure: bool) -> None:
        throttle = throttle_verbs.find(name)
        shown = plain(throttle.name).plain
        throttle_verbs.refuse_in_use(throttle)
        if not sure and not self.is_confirmed(f"Remove the throttle {shown}?"):
            self.stdout.write("nothing was changed")
            return
        throttle_verbs.remove([throttle])
        self.stdout.write(json.dumps({"removed": name}, ensure_ascii=False) if as_json else f"{shown} is removed")


def _changed(verb: str, options: dict[str, Any]) -> Throttle:
    match verb:
        case "pause":
            return throttle_verbs.pause(options["name"])
        case "resume":
            return throttle_verbs.resume(options["name"], options["max_in_flight"])
    asked = {name: options[name] for name in ("max_in_flight", "rate", "burst") if options[name] is not None}
    if not asked:
        raise CommandError("say what to change: --max-in-flight N, --rate R, --burst N", returncode=2)
    do = throttle_verbs.add if verb == "add" else throttle_verbs.change
    return do(options["name"], **{name: _value(value) for name, value in asked.items()})


def _value(given: Any) -> Any:
    return None if given == NO_RATE else given


def _number_or_none(number: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if text == NO_RATE:
            return NO_RATE
        try:
            return number(text)
        except ValueError:
            raise ArgumentTypeError(f"a number or `{NO_RATE}`, not {text!r}") from None

    return read


_rate, _burst = _number_or_none(float), _number_or_none(int)


def _describe_error(error: ValidationError, options: dict[str, Any]) -> str:
    said = {field: " ".join(texts) for field, texts in error.message_dict.items()}
    if options["verb"] == "add" and "name" in said:
        said["name"] = describe_taken_name(error, said["name"], "throttles set", options["name"])
    if any(problem.code == "min_value" for problem in error.error_dict.get("rate", [])):
        said["rate"] += " `none` takes the rate away, `--max-in-flight 0` pauses."
    lines = (f"{'NAME' if field == 'name' else '--' + field.replace('_', '-')}: {said[field]}" for field in said)
    return "nothing was changed; " + "; ".join(lines)


def _facts(one: Live) -> dict[str, Any]:
    """One throttle by name; `next_token_in` is seconds, null without a rate."""
    throttle = one.throttle
    return {
        "id": throttle.pk,
        "name": throttle.name,
        "max_in_flight": throttle.max_in_flight,
        "paused": throttle.max_in_flight == 0,
        "rate": throttle.rate,
        "burst": throttle.burst,
        "in_flight": one.in_flight,
        "ready": one.ready,
        "waiting": one.waiting,
        "tokens": one.tokens,
        "next_token_in": one.next_token_in,
        "at_least": sorted(one.at_least),
    }


def _row(one: Live) -> tuple[object, ...]:
    throttle, rated = one.throttle, one.tokens is not None
    return (
        throttle.name,
        f"{one.in_flight:,}",
        f"{throttle.max_in_flight:,}",
        one.describe("ready"),
        one.describe("waiting"),
        f"{throttle.rate:g} a second, burst {throttle.bucket_size:g}" if rated else "",
        f"{one.tokens:.1f}" if rated else "",
        (span(one.next_token_in) if one.next_token_in else "now") if rated else "",
        "paused" if throttle.max_in_flight == 0 else "",
    )
