"""What a person declares, once for every surface: a plain pydantic model a resource, with units, limits and words.

types       the types that declarations share
parts       values that have parts: a form has a field for each, every other surface their JSON
problems    what is wrong with values, by field, in words
unknown     rows by their names, and what is said of a name that nothing has
service     how rows are edited as they are declared: the rules that need the database, and what follows from an edit
surfaces    the kit by which a declaration becomes a form, a list, a command or an answer; it knows these, they not it

Retry policies and throttles are declared in operations/declarations.py: `jobs` needs no pydantic.

The API takes a declaration as its body and answers it; the fleet file is lists of them; commands take options from it
(declarations/surfaces/commands/options.py), forms of the admin their help texts and checks
(declarations/surfaces/admin/declared.py).
"""

from collections.abc import Callable

from django.db.models import Model


class InUse(ValueError):
    """A row is not deleted. Its text says what keeps it, and what to do."""


uses: list[Callable[[Model], str]] = []
"""What apps above say of a row that a person wants to delete: in a sentence, what else uses it; empty: nothing."""

fleet_sections: dict[str, str] = {}
"""Lists of a fleet file that apps above `sources` add: name → path of the service, which may refer to all before it."""
