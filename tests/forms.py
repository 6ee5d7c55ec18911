"""The data that a browser sends of a form of the admin."""

from html.parser import HTMLParser
from typing import Any

from pydantic import BaseModel

from declarations.parts import parts_of
from declarations.surfaces.admin.declared_admin import DeclaredForm
from declarations.surfaces.admin.part_fields import Cells, PartsField


def sent(name: str, cells: Any) -> dict[str, str]:
    """The inputs of a field whose value has parts, by their names."""
    return {f"{name}-{number}-{part}": text for number, row in enumerate(cells) for part, text in row.items()}


def typed(declaration: type[BaseModel], fields: dict[str, Any]) -> dict[str, Any]:
    """Values as the inputs of a form have them: in parts, where the declaration says so; a text is typed as it is into
    the first part."""
    parts, found = parts_of(declaration), {}
    for name, value in fields.items():
        if name not in parts:
            found[name] = value
        elif isinstance(value, str):
            found |= sent(name, [{parts[name].parts[0].name: value}])
        else:
            found |= sent(name, parts[name].cells(value))
    return found


def shown(form: DeclaredForm) -> dict[str, Any]:
    """The inputs of a page of the form that was not touched."""
    found: dict[str, Any] = {}
    for name, field in form.fields.items():
        value = form[name].value()
        if isinstance(field, PartsField):
            found |= sent(name, Cells(field.prepare_value(value) or ()))
        elif value is not None and value is not False:
            found[name] = value
    return found


class Inputs(HTMLParser):
    """The inputs of a page, as a browser sends them with its form; buttons are left out."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, Any] = {}
        self._select, self._area, self._template, self._many = "", "", 0, False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        name, kind = has.get("name", ""), has.get("type", "text")
        self._template += tag == "template"
        if self._template or "disabled" in has:
            return
        if tag == "select":
            self._select, self._many = name, "multiple" in has
        elif tag == "option" and self._select and self._many:
            self._add(self._select, [has.get("value", "")] if "selected" in has else [])
        elif tag == "option" and self._select and ("selected" in has or self._select not in self.found):
            self.found[self._select] = has.get("value", "")
        elif tag == "textarea" and name:
            self._area, self.found[name] = name, ""
        elif tag == "input" and name and kind not in ("submit", "button", "file"):
            is_off = kind in ("checkbox", "radio") and "checked" not in has
            value = has.get("value", "on" if kind == "checkbox" else "")
            if kind == "checkbox" and not is_off and name in self.found:  # one of several
                self._add(name, [value])
            else:
                self.found |= {} if is_off else {name: value}

    def _add(self, name: str, values: list[str]) -> None:
        before = self.found.get(name, [])
        self.found[name] = [*(before if isinstance(before, list) else [before]), *values]

    def handle_endtag(self, tag: str) -> None:
        self._template -= tag == "template"
        if tag == "select":
            self._select = ""
        if tag == "textarea":
            self._area = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.found[self._area] += data
