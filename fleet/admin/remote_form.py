"""The inputs of a source of the kind `rclone`: the type of its remote, as rclone lists them, and what rclone takes for
it. What rclone calls advanced has an input once it is set, by a fleet file or the API."""

from collections.abc import Mapping
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from engines.kinds import MARKER
from external.processes.programs import ProgramMissing
from sealing.lookup import FORMS
from storage.places import providers
from storage.places.providers import ALLOWED, PLAINTEXT

OPTION, SECRET = "option_", "secret_"
TYPE = f"{OPTION}type"


def titles() -> dict[str, str]:
    """The types of remotes, with what rclone calls them; none where it is not installed."""
    try:
        return providers.titles()
    except (ProgramMissing, ValueError):
        return {}


def fields_of(kind: str, options: Mapping[str, Any]) -> dict[str, forms.Field]:
    """The inputs of a remote of the type `kind`, by name, needed ones first; `options`: those that it has."""
    found = providers.providers().get(kind, {}) if kind in titles() else {}
    shown = {
        f"{SECRET if each.is_secret else OPTION}{name}": _field_of(name, each)
        for name, each in sorted(found.items(), key=lambda pair: pair[1].required_by is None)
        if name in options or (each.is_usual and not _runs_on_the_worker(name))
    }
    types = forms.ChoiceField(
        label="Type",
        choices=[("", "choose"), *((name, f"{title} ({name})") for name, title in titles().items())],
        widget=UnfoldAdminSelectWidget,
        help_text="As rclone calls them. With another one, save once to see what that needs.",
    )
    plaintext = forms.ChoiceField(
        label="Plaintext", required=False, choices=[("", "no"), (ALLOWED, ALLOWED)], widget=UnfoldAdminSelectWidget,
        help_text="Whether its password may be sent in clear, as over FTP without TLS.",
    )  # fmt: skip
    marker = forms.CharField(label="Marker", required=False, max_length=500, help_text=MARKER.means)
    return {TYPE: types, **shown, f"{OPTION}{PLAINTEXT}": plaintext, f"{OPTION}{MARKER.name}": marker}


def sent(typed: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed, as options and secrets."""
    return {
        field: {name.removeprefix(prefix): value for name, value in typed.items() if name.startswith(prefix) and value}
        for field, prefix in (("options", OPTION), ("secrets", SECRET))
    }


def _field_of(name: str, option: providers.Option) -> forms.Field:
    return forms.CharField(
        max_length=500,
        required=option.required_by == frozenset(),
        label=name.replace("_", " ").capitalize(),
        widget=UnfoldAdminTextInputWidget,
        help_text=f"{option.means}." + (f" Where it is found: {FORMS}." if option.is_secret else ""),
    )


def _runs_on_the_worker(name: str) -> bool:
    return bool(providers.of_the_worker({name: ""}) or providers.RUNS_A_PROGRAM.fullmatch(name))
