"""The form by which a user asks for a restore of the files that they browse."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from backups.restores.requests import ACCOUNT
from engines.kinds import RULES
from engines.not_kept import not_kept
from sources.declarations import resources
from sources.models import Source, To
from sources.models.source import SourceKind

TICKS = {
    SourceKind.POSTGRESQL: ("trusted", "roles_with_rights"),
    SourceKind.MARIADB: ("trusted",),
}
"""Checkboxes of kinds whose servers have accounts."""


class RestoreForm(forms.Form):
    """The destination of a restore of the browsed files."""

    to = forms.ChoiceField(choices=To.choices, widget=UnfoldAdminSelectWidget, label="Restore to")
    target = forms.CharField(
        required=False, max_length=500, widget=UnfoldAdminTextInputWidget, label="Folder",
        help_text="On the worker's host: an absolute path. In the source: a folder below its path; in place if empty.",
    )  # fmt: skip
    overwrite = forms.BooleanField(
        required=False, widget=UnfoldBooleanWidget, label="Replace files that differ",
        help_text="Without it, nothing is written when a file there differs from the backup.",
    )  # fmt: skip

    foreign = forms.BooleanField(
        required=False, widget=UnfoldBooleanWidget, label="Although it is foreign",
        help_text=(
            "Only for a point that was not written as it is by a backup of this installation: it may hold "
            "anything."
        ),
    )  # fmt: skip

    def __init__(self, source: Source, *args: Any) -> None:
        super().__init__(*args)
        is_database = RULES[source.kind].is_database
        ticks = TICKS.get(SourceKind(source.kind), ())
        for name in ("dry_run", *ticks):
            self.fields[name] = _field(name, forms.BooleanField, UnfoldBooleanWidget)
        for name in ACCOUNT if ticks else ():
            self.fields[name] = _field(name, forms.CharField, UnfoldAdminTextInputWidget)
        back = To.DATABASE if is_database else To.SOURCE
        self.fields["to"].help_text = f"Its backups, so its restores, lack {'; '.join(not_kept(source.kind))}."
        self.fields["to"].choices = [each for each in To.choices if each[0] in (To.FOLDER, back)]  # type: ignore[attr-defined]
        if is_database:
            self.fields["target"].label = "Folder, or name of the new database"
            text = "On the worker's host an absolute path. A new database must not exist yet."
            text += " The name of one that was dropped is free."
            if user := source.options.get("user"):
                text += f" What the dump holds runs there with the rights of {user} only if you trust it."
            self.fields["target"].help_text = text


def _field(name: str, kind: type[forms.Field], widget: Any) -> forms.Field:
    """A field with the label and the help text of the declaration."""
    declared = resources.RestoreDeclaration.model_fields[name]
    return kind(required=False, widget=widget, label=declared.title, help_text=f"{declared.description}.")
