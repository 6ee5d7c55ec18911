"""Seal texts again with the present SECRET_KEY that an earlier one sealed: then SECRET_KEY_FALLBACKS may be emptied.

Each text is replaced only if it is still the one that was opened. After a kill the next run continues, and an edit made
in the meantime is kept. A text that no key opens is named and left as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from django.apps import apps

from sealing.encryption import Unsealable, is_sealed_by_present_key, seal, unseal
from sealing.fields import SealedField


@dataclass
class ResealProgress:
    """Progress. `total`: all texts; `current`: those that the present key had sealed already; `unopened`: names."""

    total: int
    resealed: int = 0
    current: int = 0
    unopened: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        return self.resealed + self.current + len(self.unopened)


def reseal_all(on_progress: Callable[[ResealProgress], None] = lambda _: None) -> ResealProgress:
    """Reseal everything; `on_progress` is called after each text."""
    texts = [(sealed_field, pk) for sealed_field in sealed_fields() for pk in _ids(sealed_field)]
    found = ResealProgress(len(texts))
    for sealed_field, pk in texts:
        _reseal(sealed_field, pk, found)
        on_progress(found)
    return found


def sealed_fields() -> list[SealedField]:
    """Everything that is sealed."""
    fields = (field for model in apps.get_models() for field in model._meta.concrete_fields)
    return [field for field in fields if isinstance(field, SealedField)]


def _ids(field: SealedField) -> list[int]:
    rows = field.model._default_manager.exclude(**{field.name: ""}).order_by("pk")
    return list(rows.values_list("pk", flat=True))


def _reseal(field: SealedField, pk: int, found: ResealProgress) -> None:
    rows = field.model._default_manager.filter(pk=pk)
    row = rows.first()
    sealed = getattr(row, field.name, "")
    if not sealed or is_sealed_by_present_key(sealed):  # or it has been deleted in the meantime
        found.current += 1
        return
    try:
        text = unseal(sealed)
    except Unsealable:
        found.unopened.append(f"{row} ({field.model._meta.verbose_name}, {field.verbose_name})")
        return
    if rows.filter(**{field.name: sealed}).update(**{field.name: seal(text)}):
        found.resealed += 1
    else:
        _reseal(field, pk, found)  # it has been replaced in the meantime
