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
from operations.admin.declared import DeclaredForm, duration_fields
from operations.declarations import RetryPolicies


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


class RetryPolicyForm(DeclaredForm):
    service = RetryPolicies

    class Meta:
        model = RetryPolicy
        fields = tuple(RetryPolicies.declaration.model_fields)
        field_classes = {"parameters": ParametersField, **duration_fields(RetryPolicies.declaration)}
        widgets = {"parameters": ParametersWidget(attrs={"rows": 3})}
