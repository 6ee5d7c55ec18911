"""Public holidays of a country, or of a part of one, by the library `holidays`. Pure: no network access."""

import difflib
import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Any

CODE = re.compile("[A-Z]{2,3}", re.ASCII)
EXAMPLE = '{"holidays": "DE"} or {"holidays": "DE", "subdivision": "BY"}'
SHOWN_SUBDIVISIONS = 30

Place = tuple[str, str]
"""The code of a country by ISO 3166, and that of one of its subdivisions (empty for the holidays of the
whole country).
"""


def parse_place(entry: Mapping[str, Any], where: str) -> Place:
    """Read `{"holidays": "DE", "subdivision": "BY"}`. Raises: ValueError naming the problem in `where`."""
    country, subdivision = entry.get("holidays"), entry.get("subdivision", "")
    if set(entry) - {"holidays", "subdivision"} or not isinstance(country, str) or not isinstance(subdivision, str):
        raise ValueError(f"{where}: holidays are written as {EXAMPLE}")
    _check(country, subdivision, where)
    return country, subdivision


@lru_cache(maxsize=1024)
def holidays_of(place: Place, year: int) -> Mapping[date, str]:
    """The public holidays of a year with their names, including those that are observed on another day.

    Names are in English if the library has them, otherwise in a language of the country: by default, the library uses
    the language of the process, so that a worker and a page could name a day differently.
    """
    from holidays import country_holidays  # 0.15 s, which most policies need not wait for

    country, subdivision = place
    known = country_holidays(country)
    english = [each for each in known.supported_languages if each.startswith("en")]
    language = min(english, default=known.default_language)
    return dict(country_holidays(country, subdiv=subdivision or None, years=year, language=language))


@lru_cache(maxsize=1024)
def _check(country: str, subdivision: str, where: str) -> None:
    from holidays import country_holidays

    try:
        found = country_holidays(country) if CODE.fullmatch(country) else None
    except NotImplementedError:
        found = None
    if found is None:
        raise ValueError(f"{where}: {country!r:.100} is not the code of a country; {_near(country)}")
    try:
        country_holidays(country, subdiv=subdivision or None)
    except NotImplementedError:
        known = [*found.subdivisions, *found.subdivisions_aliases]
        close = difflib.get_close_matches(subdivision, known, n=3) or known[:SHOWN_SUBDIVISIONS]
        has = ", ".join(close) or "none: leave it out"
        raise ValueError(f"{where}: {country} has no subdivision {subdivision!r:.100}; it has {has}") from None


def _near(text: str) -> str:
    from holidays.registry import COUNTRIES

    names = {module.replace("_", " "): codes[1] for module, codes in COUNTRIES.items()}
    by_code = {code: name for name, code in names.items()}
    found = [text.upper()] if text.upper() in by_code else []
    found += [names[name] for name in difflib.get_close_matches(text.lower(), names, n=3)]
    if not found:
        return f"write its letters by ISO 3166, such as {EXAMPLE}"
    return f"did you mean {' or '.join(f'{code} ({by_code[code].title()})' for code in found)}?"
