"""The form of a retry policy: buttons fill in the defaults of each algorithm."""

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminTextareaWidget

from jobs.models import RetryPolicy
from jobs.retries import ALGORITHMS
from operations.admin.duration_fields import WholeDurationField


class ParametersWidget(UnfoldAdminTextareaWidget):
    """A field for JSON with a button for each algorithm, which chooses that and writes its defaults."""

    template_name = "operations/with_algorithms.html"

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)
        words = 'type="button" title="{}" data-algorithm="{}" data-parameters="{}" x-on:click="choose($el)"'
        context["widget"]["buttons"] = [
            (name, format_html(words, algorithm.formula, name, json.dumps(algorithm.defaults)))
            for name, algorithm in sorted(ALGORITHMS.items())
        ]
        return context


class ParametersField(forms.JSONField):
    """JSON, of which nothing that was typed is a server error: numbers and nesting without end, half characters."""

    def to_python(self, value: Any) -> Any:
        """Raises: ValidationError for what is no JSON, or none that can be stored."""
        try:
            found = super().to_python(value)
            json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid", params={"value": ""}) from error
        return found

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What the form shows again: as it was typed, when it cannot be read."""
        try:
            found = super().bound_data(data, initial)
            json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return InvalidJSONInput(data)
        return found


class RetryPolicyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A retry policy; what its form says is checked by the model."""

    class Meta:
        model = RetryPolicy
        fields = ("name", "algorithm", "parameters", "max_delay", "max_failures", "give_up_after")
        field_classes = {
            "parameters": ParametersField,
            "max_delay": WholeDurationField,
            "give_up_after": WholeDurationField,
        }
        widgets = {"parameters": ParametersWidget(attrs={"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            # what has changed is told against what is stored, not against what the page showed a while ago
            field.show_hidden_initial = False
