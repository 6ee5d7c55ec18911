"""Fields of the admin's forms: JSON, and texts with buttons below them, each of which writes a text into the field."""

import json
from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

Filling = tuple[str, str, str]
"""A button: its words, its title, and the text that it writes into the field."""


class _WithPresets(forms.Widget):
    inner_template = ""
    template_name = "declarations/with_presets.html"

    def __init__(self, fillings: Sequence[Filling], attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs=attrs)
        self.fillings = fillings

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        on_click = 'type="button" title="{}" data-words="{}" data-fills="{}" x-on:click="fill($el)"'
        buttons = [(words, format_html(on_click, title, words, text)) for words, title, text in self.fillings]
        context["widget"] |= {"buttons": buttons, "inner_template": self.inner_template}
        return context


class LineWithPresets(_WithPresets, UnfoldAdminTextInputWidget):
    """A line of text with `fillings`."""

    inner_template = "unfold/widgets/text.html"


class LinesWithPresets(_WithPresets, UnfoldAdminTextareaWidget):
    """Some lines of text with `fillings`."""

    inner_template = "unfold/widgets/textarea.html"


class ParametersField(forms.JSONField):
    """JSON for which no input is a server error: endless numbers and nesting, half characters."""

    def to_python(self, value: Any) -> Any:
        """Raises: ValidationError for text that is not JSON, or JSON that cannot be stored."""
        try:
            found = super().to_python(value)
            json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid", params={"value": ""}) from error
        return found

    def bound_data(self, data: Any, initial: Any) -> Any:
        """The text that the form shows again: as it was typed, if it cannot be read."""
        try:
            found = super().bound_data(data, initial)
            json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return InvalidJSONInput(data)
        return found
