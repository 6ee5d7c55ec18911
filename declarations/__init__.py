"""Declarations of users, made once for every surface: a plain pydantic model for each resource, with units, limits and
texts.

types       the types that declarations share
parts       values that have parts: a form has a field for each, every other surface their JSON
problems    problems with values, by field, as text
unknown     rows by their names, and messages about unknown names
service     edits of rows as they are declared: the rules that need the database, and the effects of an edit
surfaces    the kit by which a declaration becomes a form, a list, a command or an answer; it imports these modules

Retry policies and throttles are declared in operations/declarations.py: `jobs` needs no pydantic.

The API takes a declaration as its body and returns it; a fleet file is lists of them; commands take options from it
(declarations/surfaces/commands/options.py), forms of the admin their help texts and checks
(declarations/surfaces/admin/declared_admin.py).
"""

from collections.abc import Callable

from django.db.models import Model


class InUse(ValueError):
    """A row cannot be deleted. The text names the reason and the remedy."""


uses: list[Callable[[Model], str]] = []
"""Functions of apps above, called with a row that a user wants to delete: a sentence about its other uses, or empty."""

fleet_sections: dict[str, str] = {}
"""Lists of a fleet file that apps above `sources` add: name → path of the service, which may refer to all before it."""
