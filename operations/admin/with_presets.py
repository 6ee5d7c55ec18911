"""Fields of the admin's forms with buttons below them, each of which writes a text into the field."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

Filling = tuple[str, str, str]
"""A button: its words, its title, and what it writes into the field."""


class _WithPresets(forms.Widget):
    inner_template = ""
    template_name = "operations/with_presets.html"

    def __init__(self, fillings: Sequence[Filling], attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs=attrs)
        self.fillings = fillings

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        buttons = [
            (words, format_html('type="button" title="{}" data-fills="{}" x-on:click="fill($el)"', title, text))
            for words, title, text in self.fillings
        ]
        context["widget"] |= {"buttons": buttons, "inner_template": self.inner_template}
        return context


class LineWithPresets(_WithPresets, UnfoldAdminTextInputWidget):
    """A line of text with `fillings`."""

    inner_template = "unfold/widgets/text.html"


class LinesWithPresets(_WithPresets, UnfoldAdminTextareaWidget):
    """Some lines of text with `fillings`."""

    inner_template = "unfold/widgets/textarea.html"
