"""The inputs of an rclone remote, of a source of the kind `rclone` or of a repository: its type, as rclone lists them,
and the options that rclone takes for it. Options that rclone calls advanced come last, for a folded part of the form.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from django import forms
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from declarations.parts import Part, Parts
from engines.kinds import MARKER
from external.processes.programs import ProgramMissing
from fleet.admin.secret_inputs import HELP, SecretField
from storage.places import providers
from storage.places.providers import ALLOWED, PLAINTEXT, Option
from storage.places.remotes import REST_SERVER

Form = TypeVar("Form", bound=forms.BaseForm)

OPTION, SECRET = "option_", "secret_"
TYPE = f"{OPTION}type"
NEEDED: frozenset[str] = frozenset()
OF_A_REST_SERVER = {
    "url": Option(NEEDED, False, False, "Its URL, such as https://backups.example.org:8000", is_usual=True),
    "user": Option(None, False, False, "The account there", is_usual=True),
    "password": Option(None, True, True, "The password of that account", is_usual=True),
}
UNKNOWN = Option(None, False, False, "Not one of its options")
"""A stored option that rclone does not list, or no longer does: it can be seen, and removed."""
ALWAYS_ASKED = frozenset({"host_keys"})
"""Options that rclone calls advanced, but without which nothing is written."""
LONGEST = 500


class RemoteInputs(NamedTuple):
    """Fields by their names: those that most users set, and the rest."""

    usual: dict[str, forms.Field]
    advanced: dict[str, forms.Field]


def titles() -> dict[str, str]:
    """The types of remotes, with their titles in rclone; empty if rclone is not installed."""
    try:
        return providers.titles()
    except (ProgramMissing, ValueError):
        return {}


def type_field(empty: str, others: Iterable[tuple[str, str]] = ()) -> forms.ChoiceField:
    """The field for the type of a remote. `empty`: the label for no type."""
    of_rclone = ((name, f"{title} ({name})") for name, title in titles().items())
    return forms.ChoiceField(
        label="Type", choices=[("", empty), *others, *of_rclone], widget=UnfoldAdminSelectWidget, required=False,
        help_text="As rclone calls them. With another one, save once to see what that needs.",
    )  # fmt: skip


def inputs_of(kind: str, stored: Iterable[str] = ()) -> RemoteInputs:
    """The inputs of a remote of the type `kind`, required ones first; `stored`: names of the settings that it has."""
    found = _options_of(kind)
    usual: dict[str, forms.Field] = {}
    advanced: dict[str, forms.Field] = {}
    unknown = {name: UNKNOWN for name in stored if name not in {*found, "type", PLAINTEXT, MARKER.name}}
    for name, option in sorted((found | unknown).items(), key=lambda pair: pair[1].required_by is None):
        if name in stored or not _runs_on_the_worker(name):
            is_usual = option.is_usual or option.required_by is not None or name in ALWAYS_ASKED
            place = usual if is_usual else advanced
            place[f"{SECRET if option.is_secret else OPTION}{name}"] = _field_of(name, option)
    if found:
        advanced[f"{OPTION}{PLAINTEXT}"] = forms.ChoiceField(
            label="Plaintext", required=False, choices=[("", "no"), (ALLOWED, ALLOWED)], widget=UnfoldAdminSelectWidget,
            help_text="Whether its password may be sent in clear text, such as over FTP without TLS.",
        )  # fmt: skip
    return RemoteInputs(usual, advanced)


def fields_of(kind: str, stored: Iterable[str] = ()) -> dict[str, forms.Field]:
    """The inputs of a source's remote, with its type and its marker."""
    usual, advanced = inputs_of(kind, stored)
    marker = forms.CharField(
        label="Marker", required=False, max_length=LONGEST, strip=False, widget=UnfoldAdminTextInputWidget,
        help_text=f"{MARKER.means}.",
    )  # fmt: skip
    return {TYPE: type_field("choose"), **usual, f"{OPTION}{MARKER.name}": marker, **advanced}


def advanced_of(kind: str, stored: Iterable[str] = ()) -> list[str]:
    """The names of the folded fields."""
    return list(inputs_of(kind, stored).advanced)


def made(form: type[Form], **attributes: Any) -> type[Form]:
    """A form like that one, with these fields and facts."""
    metaclass: Any = type(form)
    found: type[Form] = metaclass(form.__name__, (form,), attributes)
    return found


def in_pairs(names: Sequence[str]) -> list[Any]:
    """Fields of a fieldset, two in a line."""
    return [tuple(names[start : start + 2]) for start in range(0, len(names), 2)]


def in_lines(first: Sequence[str], names: Iterable[str]) -> list[Any]:
    """The settings of a remote in a fieldset: the `first` fields, texts two in a line, and a line for each secret."""
    rest = [name for name in names if name not in first]
    texts = [name for name in rest if not name.startswith(SECRET)]
    return [*first, *in_pairs(texts), *(name for name in rest if name.startswith(SECRET))]


def show(form: forms.BaseForm, options: Mapping[str, Any], secrets: Mapping[str, str], kind: str) -> None:
    """Fill in the stored values, or the type that was chosen for a new remote."""
    for name, field in form.fields.items():
        if isinstance(field, SecretField):
            field.initial = field.stored = secrets.get(name.removeprefix(SECRET), "")
        elif name.startswith(OPTION):
            option = name.removeprefix(OPTION)
            text = Part(option).text(options[option]) if option in options else ""
            field.initial = text or (kind if name == TYPE else "")
            if isinstance(field, forms.ChoiceField):
                choices: Any = field.choices
                field.choices = [*choices, *([] if text in dict(choices) else [(text, text)])]


def sent(typed: Mapping[str, Any], stored: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Options and secrets that were typed. `stored`: options that stay as they are if their text is the same."""
    cells = {name.removeprefix(OPTION): text for name, text in typed.items() if name.startswith(OPTION)}
    known = {name: value for name, value in stored.items() if name in cells}
    secrets = {name.removeprefix(SECRET): text for name, text in typed.items() if name.startswith(SECRET) and text}
    return Parts(tuple(map(Part, cells))).value([cells], known), secrets


def _options_of(kind: str) -> dict[str, Option]:
    if kind == REST_SERVER:
        return OF_A_REST_SERVER
    return providers.providers().get(kind, {}) if kind in titles() else {}


def _field_of(name: str, option: Option) -> forms.Field:
    words: dict[str, Any] = {
        "required": option.required_by == NEEDED, "label": name.replace("_", " ").capitalize(),
        "help_text": f"{option.means}.",
    }  # fmt: skip
    if option.is_secret:
        return SecretField(**(words | {"help_text": f"{option.means}. {HELP}."}))
    if option.choices:
        choices = [("", "as usual"), *((each, each) for each in option.choices)]
        return forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget, **words)
    # with its spaces: those that are stored are part of the value, others are taken off once they are not
    return forms.CharField(max_length=LONGEST, strip=False, widget=UnfoldAdminTextInputWidget, **words)


def _runs_on_the_worker(name: str) -> bool:
    return bool(
        providers.of_the_worker({name: ""})
        or providers.RUNS_A_PROGRAM.fullmatch(name)
        or name in providers.SET_FROM_HOST_KEYS
    )
