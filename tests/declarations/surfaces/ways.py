"""The four surfaces of what is declared, each asked in the same words: create, change, remove, show, pause."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from django.contrib import admin
from django.core.management import CommandError, get_commands, load_command_class

from api.declared_resources import DeclaredResource
from api.root import api
from declarations.shapes import shapes_of
from declarations.surfaces.commands.declared_commands import DeclaredCommand
from fleet.files.schema import SECTIONS
from tests.api.asking import Program, make_user
from tests.commands import command
from tests.declarations.surfaces.answers import Answer
from tests.declarations.surfaces.in_the_admin import InTheAdmin
from tests.declarations.surfaces.resources import SECRET, SERVICES, Values
from tests.product import PACKAGES


@cache
def operations() -> dict[Any, tuple[str, type[DeclaredResource[Any]]]]:
    """Model → where the API has it, and what makes its operations: once, since their shapes have their names alone."""
    assert api.urls_namespace
    return {each.model: (_plural(each).replace(" ", "-"), each) for each in DeclaredResource.__subclasses__()}


def _plural(of: type[DeclaredResource[Any]]) -> str:
    return f"{of.called}s" if of.called else str(of.model._meta.verbose_name_plural)


class OverTheApi:
    def __init__(self, resource: str, folder: Path, account: list[str] | None = None) -> None:
        self.path, of = operations()[SERVICES[resource].model]
        self.service = of.service
        self.body = of.body or self.service.declaration
        self.program = Program(None if account is None else make_user(*account))
        self.who = (self.program.user.username, "API, token a program")

    def secret(self, name: str) -> Values:
        return {name: SECRET} if name in self.body.model_fields else {}

    def create(self, values: Values) -> Answer:
        return self._answer(self.program.post(self.path, values))

    def change(self, row: Any, values: Values) -> Answer:
        return self._answer(self.program.patch(f"{self.path}/{row.pk}", values))

    def remove(self, row: Any) -> Answer:
        return self._answer(self.program.delete(f"{self.path}/{row.pk}"))

    def shown(self, row: Any) -> str:
        return "".join(self.program.get(each).content.decode() for each in (self.path, f"{self.path}/{row.pk}"))

    def verb(self, row: Any, verb: str, **given: str) -> Answer:
        return self._answer(self.program.ask("POST", f"{self.path}/{row.pk}/{verb}", query=given))

    def _answer(self, response: Any) -> Answer:
        text, found = response.content.decode(), json.loads(response.content or "{}")
        if response.status_code < 300:
            return Answer(text)
        problems: dict[str, str] = {}
        for each in found["errors"] if response.status_code == 422 else ():
            problems[each["field"]] = "; ".join(filter(None, (problems.get(each["field"]), each["message"])))
        return Answer(text, problems, f"{response.status_code} {found['detail']}")


@cache
def nouns() -> dict[Any, str]:
    """Model → the command of its rows."""
    loaded = {name: load_command_class(app, name) for name, app in get_commands().items() if app in PACKAGES}
    return {each.service.model: name for name, each in loaded.items() if isinstance(each, DeclaredCommand)}


class AtTheCommandLine:
    who = None
    in_a_file: ClassVar[dict[str, str]] = {"authorization": "--authorization-file", "secret_url": "--url-file"}

    def __init__(self, resource: str, folder: Path, account: list[str] | None = None) -> None:
        self.noun, self.folder = nouns()[SERVICES[resource].model], folder
        loaded: Any = load_command_class(get_commands()[self.noun], self.noun)
        self.service, self.positional = loaded.service, loaded.positional

    def secret(self, name: str) -> Values:
        return {name: SECRET} if name else {}

    def create(self, values: Values) -> Answer:
        return self._run("add", *(values[name] for name in self.positional if name in values), *self._options(values))

    def change(self, row: Any, values: Values) -> Answer:
        return self._run("set", self.service().name_of(row), *self._options(values, but=()))

    def remove(self, row: Any) -> Answer:
        return self._run("remove", self.service().name_of(row), "--yes")

    def shown(self, row: Any) -> str:
        name, listing = self.service().name_of(row), "routes" if self.noun == "alerts" else "list"
        asked = (listing,), (listing, "--json"), ("show", name), ("show", name, "--json")
        return "".join(self._run(*each).text for each in asked)

    def verb(self, row: Any, verb: str, **given: str) -> Answer:
        return self._run(verb, self.service().name_of(row), *(f"--{name}={text}" for name, text in given.items()))

    def _options(self, values: Values, but: tuple[str, ...] | None = None) -> Iterator[str]:
        """Each value by its own option where that holds it, else as JSON."""
        shapes = shapes_of(self.service.declaration)
        for name, value in values.items():
            option, shape = f"--{name.replace('_', '-')}", shapes.get(name)
            if name in (self.positional if but is None else but):
                continue
            if name in self.in_a_file:
                (self.folder / name).write_text(value)
                yield from (self.in_a_file[name], str(self.folder / name))
            elif shape and shape.of_texts and isinstance(value, list):
                yield from (option, *value)
            elif isinstance(value, bool) and shape and shape.type == "boolean" and not shape.nullable:
                yield option if value else f"--no{option[1:]}"
            elif shape and _has_option(shape, value):
                yield f"{option}={value}"
            else:
                yield f"--set={name}={json.dumps(value)}"

    def _run(self, *arguments: object) -> Answer:
        try:
            return Answer(command(self.noun, with_errors=True)[0](*arguments))
        except CommandError as error:
            text = str(error)
        lines = text.removeprefix("nothing was saved:\n").splitlines()
        if len(lines) == len(text.splitlines()):
            return Answer(text, refusal=text)
        problems = {}
        for line in lines:
            label, _, problem = line.partition(": ")
            problems[label.removeprefix("--").replace("-", "_").lower()] = problem
        return Answer(text, problems)


def _has_option(shape: Any, value: Any) -> bool:
    if shape.choices:
        return value in shape.choices
    right = {"integer": int, "number": int | float, "string": str}.get(shape.type)
    return bool(right and isinstance(value, right) and not isinstance(value, bool))


class InAFleetFile:
    who = None

    def __init__(self, resource: str, folder: Path, account: list[str] | None = None) -> None:
        self.section, self.service, self.file = resource, SECTIONS[resource], folder / "fleet.json"

    def secret(self, name: str) -> Values:
        return {}

    def create(self, values: Values) -> Answer:
        return self._apply([values])

    def change(self, row: Any, values: Values) -> Answer:
        renamed = {"renamed_from": self.service().name_of(row)} if "name" in values else {}
        return self._apply([{"name": self.service().name_of(row)} | renamed | values])

    def remove(self, row: Any) -> Answer:
        """Delete rows by a file that names only the others."""
        names = map(self.service().name_of, self.service().declared_rows().exclude(pk=row.pk))
        return self._apply([{"name": name} for name in names], "--prune", "--yes")

    def shown(self, row: Any) -> str:
        return command("sources export")[0]()

    def _apply(self, rows: list[Values], *options: str) -> Answer:
        self.file.write_text(json.dumps({self.section: rows}))
        try:
            return Answer(command("apply")[0](self.file, *options))
        except CommandError as error:
            text = str(error)
        problems: dict[str, str] = {}
        of_the_row = rf"^  fleet\.json: {self.section}\[0\](?: \(.*?\))?: ([\w.]+): (.*)$"
        for name, problem in re.findall(of_the_row, text, re.MULTILINE):
            problems[name] = "; ".join(filter(None, (problems.get(name), problem)))
        return Answer(text, problems, text)


SURFACES: dict[str, type[Any]] = {
    "api": OverTheApi, "admin": InTheAdmin, "command": AtTheCommandLine, "fleet file": InAFleetFile,
}  # fmt: skip


def has(resource: str, surface: str) -> bool:
    """Retry policies have no command of their own, and stored secrets one of another kind; no file holds a secret."""
    model = SERVICES[resource].model
    return {
        "api": model in operations(), "admin": model in admin.site._registry, "command": model in nouns(),
        "fleet file": resource in SECTIONS,
    }[surface]  # fmt: skip
