"""Commands that are nouns: the word after one is a verb, and a verb is a method of the command or a module.

An app gives a noun verbs by a package `management/NOUN/`. Its VERBS name them, each with a line of help; the module
`backup_now` in it does the work of `backup-now`:

    HELP                    the effect of the verb, with its exit codes
    add_arguments(parser)   the arguments of the verb
    run(command, options)   does the work; raises exceptions that `VerbCommand` reports
    NEEDS_TABLES            False for a verb that has work to do without tables; left out: True

A module is loaded when its verb is typed, and so are the options of the other verbs: help of the noun loads neither.
An app may give verbs to the noun of a lower one, as `fleet` does to `backlog`.
"""

from argparse import SUPPRESS, ArgumentParser, HelpFormatter, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

from django.apps import apps
from django.core.management.base import CommandParser, DjangoHelpFormatter

from declarations.surfaces.commands.base import VerbCommand
from jobs.conf import PROGRAM

Fill = Callable[[ArgumentParser], None]


class Examples(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """Help that leaves examples, which have several lines, as they are, and wraps texts of one line."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text if "\n" in text else partial(HelpFormatter._fill_text, self)
        return fill(text, width, indent)


class Verbs(_SubParsersAction):  # type: ignore[type-arg]
    """The verbs of a noun. `later`: gives a verb's parser its arguments, once the verb is typed."""

    later: dict[str, Fill]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.later = {}

    def __call__(self, parser: ArgumentParser, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if fill := self.later.pop(values[0], None):
            fill(self._name_parser_map[values[0]])
        super().__call__(parser, namespace, values, option_string)


class NounCommand(VerbCommand):
    """A noun with verbs. A subclass adds its own in `add_verbs`; without a verb it lists."""

    examples: ClassVar[dict[str, str]] = {}
    """Verb → an example of its arguments."""

    def create_parser(self, prog_name: str, subcommand: str, **options: Any) -> CommandParser:
        """Its parser. Options of `list` are taken without the verb, too: `sources --status failing`."""
        parser = super().create_parser(prog_name, subcommand, **options)
        parse = parser.parse_args

        def parse_args(args: Sequence[str], namespace: Any = None) -> Any:
            options = takewhile(lambda each: each.startswith("--"), args)
            known = parser._option_string_actions
            of_list = any(each.partition("=")[0] not in known for each in options)
            return parse(["list", *args] if of_list else args, namespace)

        parser.parse_args = parse_args  # type: ignore[assignment, method-assign]
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.formatter_class = Examples
        parser.add_argument("--json", action="store_true", help="print JSON")
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", action=Verbs)
        self.add_verbs(verbs)
        self._modules = {}
        for verb, what, module in modules_of(self.noun):
            self._modules[verb] = module
            self.add_verb(verbs, verb, what, later=partial(_fill, module))

    def add_verbs(self, verbs: Any) -> None:
        """Add the verbs that are methods of this command."""

    def add_verb(self, verbs: Any, name: str, what: str, *, later: Fill | None = None) -> ArgumentParser:
        """Add a verb; `later` gives it its arguments when it is typed."""
        example = self.examples.get(name)
        made: ArgumentParser = verbs.add_parser(
            name, help=what, description=f"{what[0].upper()}{what[1:]}.", formatter_class=Examples,
            epilog=f"example:\n  {PROGRAM} {self.noun} {name} {example}" if example else None,
        )  # fmt: skip
        # without its own default, which would undo a --json before the verb
        made.add_argument("--json", action="store_true", default=SUPPRESS, help="print JSON")
        if later:
            verbs.later[name] = later
        return made

    @property
    def noun(self) -> str:
        """The name of the command."""
        return type(self).__module__.rpartition(".")[2]

    def execute(self, *args: Any, **options: Any) -> str | None:
        if module := self._modules.get(options.get("verb") or ""):
            self.needs_tables = self.needs_tables and getattr(import_module(module), "NEEDS_TABLES", True)
        return super().execute(*args, **options)

    def do(self, verb: str, options: dict[str, Any]) -> None:
        if verb in self._modules:
            import_module(self._modules[verb]).run(self, options)
        else:
            super().do(verb, options)


def modules_of(noun: str) -> Iterator[tuple[str, str, str]]:
    """The verbs that apps give to a noun: the verb, its line of help, and the path of its module."""
    for app in apps.get_app_configs():
        if (Path(app.path) / "management" / noun / "__init__.py").is_file():
            package = f"{app.name}.management.{noun}"
            for verb, what in import_module(package).VERBS.items():
                yield verb, what, f"{package}.{verb.replace('-', '_')}"


def _fill(module: str, parser: ArgumentParser) -> None:
    verb = import_module(module)
    parser.description = verb.HELP
    verb.add_arguments(parser)
