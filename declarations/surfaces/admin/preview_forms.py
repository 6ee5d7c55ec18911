"""Forms of the admin with a preview of their effects while they are edited."""

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import path, reverse

from declarations.surfaces.admin.row_history import ModelAdmin

ONCE_RIGHT = "A preview is shown here once the fields are valid."


def problems_of(form: Any, names: Iterable[str]) -> list[str]:
    """The problems with these fields of a form, a line each."""
    return [f"{name.replace('_', ' ')}: {text}" for name in names for text in form.errors.get(name, [])]


class PreviewedForm(ModelAdmin):
    """A model admin whose form has a preview, first of the saved row and then of the typed one. Nothing is saved for
    it.

    To make one: return the preview of a form in `preview_of_form`, and include `declarations/live_preview.html` at its
    place in `admin/<app>/<model>/change_form.html`. A user who may not change the row sees the preview of the saved
    one.
    """

    def preview_of_form(self, form: Any) -> str:
        """The HTML (safe) of a form's preview, bound or not; or of its problems."""
        raise NotImplementedError

    def preview_of_page(self, form: Any, saved: Any) -> str:
        """The HTML (safe) of the preview with which a page opens; `saved` is None on the page that adds one."""
        return self.preview_of_form(form)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.preview_view)
        name = self._preview_name()
        own = [
            path("preview/", view, name=name),
            path("<path:object_id>/preview/", view, name=f"{name}_of"),
        ]
        return own + super().get_urls()  # type: ignore[no-any-return]

    def preview_view(self, request: HttpRequest, object_id: str | None = None) -> HttpResponse:
        """Answer a POST of the form's values, which are not saved: with their preview, or their problems."""
        saved = self.get_object(request, object_id) if object_id else None
        if object_id and saved is None:
            raise Http404(f"there is no {self.opts.verbose_name} {object_id}")
        if not self._may_edit(request, saved):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        form = self.get_form(request, saved, change=saved is not None)(request.POST, instance=saved)
        return HttpResponse(self.preview_of_form(form))

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        saved = context.get("original")
        name = f"admin:{self._preview_name()}"
        if self._may_edit(request, saved):
            context["preview_url"] = reverse(f"{name}_of", args=[saved.pk]) if saved else reverse(name)
        form = context["adminform"].form
        is_wrong = form.is_bound and form.errors  # which are shown next to their fields
        context["preview"] = ONCE_RIGHT if is_wrong else self.preview_of_page(form, saved)
        return super().render_change_form(request, context, *args, **kwargs)

    def _preview_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_preview"

    def _may_edit(self, request: HttpRequest, saved: Any) -> bool:
        return bool(self.has_change_permission(request, saved) if saved else self.has_add_permission(request))
