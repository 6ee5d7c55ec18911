"""The form of an endpoint. Its Authorization is typed in, and never shown again."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextareaWidget, UnfoldBooleanWidget

from delivery import declarations
from delivery.declarations import LONGEST_AUTHORIZATION
from delivery.endpoints import Endpoints
from delivery.models import Endpoint
from operations.admin.declared import DeclaredForm, duration_fields
from operations.admin.retry_policy_form import ParametersField


class EndpointForm(DeclaredForm):
    """An endpoint with its Authorization: typed in to set it, left empty to keep it."""

    service = Endpoints

    authorization = forms.CharField(
        required=False,
        strip=True,
        max_length=LONGEST_AUTHORIZATION,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="The value of the header, as Bearer …, sent with each callback. Empty: it stays as it is.",
    )
    remove_authorization = forms.BooleanField(
        required=False, widget=UnfoldBooleanWidget, help_text="Send none any more."
    )

    class Meta:
        model = Endpoint
        fields = tuple(declarations.Endpoint.model_fields)
        field_classes = {"headers": ParametersField, **duration_fields(declarations.Endpoint)}
        widgets = {"headers": UnfoldAdminTextareaWidget(attrs={"rows": 3})}

    def clean(self) -> None:
        if self.cleaned_data.get("authorization") and self.cleaned_data.get("remove_authorization"):
            self.add_error("authorization", "is given, and is to be removed: leave one of them out")

    def sent(self) -> dict[str, Any]:
        """With the Authorization when it is set or removed."""
        text, removed = self.cleaned_data.get("authorization"), self.cleaned_data.get("remove_authorization")
        return super().sent() | ({"authorization": text} if text or removed else {})
