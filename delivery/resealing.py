"""Seal anew, with the present SECRET_KEY, what an earlier one sealed: then SECRET_KEY_FALLBACKS may be emptied.

Each text is replaced by itself, and only if it is still the one that was opened: killed in between, the next run goes
on, and what is edited meanwhile stays as it was edited. What no key opens is named and stays.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from django.db.models import Model

from delivery.encryption import Unsealable, is_sealed_by_present_key, seal, unseal
from delivery.models import Endpoint, SigningSecret, StoredSecret

SEALED: tuple[tuple[type[Model], str, str], ...] = (
    (Endpoint, "sealed_authorization", "the Authorization of the endpoint {}"),
    (SigningSecret, "sealed", "the {}"),
    (StoredSecret, "sealed", "the stored secret {}"),
)
"""Everything that is sealed: model, field, and what a row's is called."""


@dataclass
class Resealing:
    """How far it is. `total`: texts there are; `current`: those that the present key had sealed; `unopened`: names."""

    total: int = 0
    resealed: int = 0
    current: int = 0
    unopened: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        return self.resealed + self.current + len(self.unopened)


def reseal_all(on_progress: Callable[[Resealing], None] = lambda _: None) -> Resealing:
    """Reseal everything; `on_progress` is called after each text."""
    rows = [(model, name, title, pk) for model, name, title in SEALED for pk in _ids(model, name)]
    found = Resealing(len(rows))
    for model, name, title, pk in rows:
        _reseal(model, name, title, pk, found)
        on_progress(found)
    return found


def _ids(model: type[Model], name: str) -> list[int]:
    return list(model._default_manager.exclude(**{name: ""}).order_by("pk").values_list("pk", flat=True))


def _reseal(model: type[Model], name: str, title: str, pk: int, found: Resealing) -> None:
    row = model._default_manager.filter(pk=pk).first()
    sealed = getattr(row, name, "")
    if not sealed or is_sealed_by_present_key(sealed):  # or it is gone meanwhile
        found.current += 1
        return
    try:
        text = unseal(sealed)
    except Unsealable:
        found.unopened.append(title.format(row))
        return
    if model._default_manager.filter(pk=pk, **{name: sealed}).update(**{name: seal(text)}):
        found.resealed += 1
    else:
        _reseal(model, name, title, pk, found)  # it was replaced meanwhile
