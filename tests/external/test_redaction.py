"""Secrets that come back from outside are struck out, however they are spelled."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from external.redaction import LONGEST, redacted

secrets = (
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=6, max_size=40)
    .map(str.strip)
    .filter(lambda text: len(text) >= 6)
)


@given(secrets)
@example("-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\nAAAAAAAAAAECAwQFBgc\n-----END KEY-----\n")
def test_no_spelling_of_a_secret_gets_through(secret: str) -> None:
    spellings = [
        secret, quote(secret, safe=""), quote_plus(secret), html.escape(secret), json.dumps(secret)[1:-1],
        repr(secret)[1:-1], secret.encode().hex(),
    ]  # fmt: skip
    for spelling in (*spellings, *(line for line in secret.splitlines() if len(line) >= 16)):
        assert spelling not in redacted(f"it answered <{spelling}>", [secret])


@given(secrets, st.binary(max_size=9), st.binary(max_size=9))
def test_in_base64_nothing_but_its_first_and_last_bits_get_through(secret: str, before: bytes, after: bytes) -> None:
    data = secret.encode()
    encoded = base64.b64encode(before + data + after).decode()
    left = redacted(encoded, [secret])
    assert "***" in left
    assert len(left.replace("***", "")) <= len(encoded) - (len(data) * 8 // 6 - 1)


@pytest.mark.parametrize("secret", ["", "a", "abc"])
def test_what_is_too_short_to_be_told_from_words_stays(secret: str) -> None:
    assert redacted("a b c abc", [secret]) == "a b c abc"


@pytest.mark.parametrize("cut_at", [1, 10, 18])
def test_a_text_without_end_is_cut_and_shows_no_half_of_a_secret(cut_at: int) -> None:
    """An answer of 60 MB and the 1,900 spellings of a long address took ten minutes."""
    secret, half = "horse/battery/staple", LONGEST // 2
    begin, end = f"no {secret} ".ljust(half - cut_at, "a"), f" {secret} no".rjust(half - cut_at, "z")
    shown = redacted(f"{begin}{secret}{'-' * 10_000_000}{secret}{end}", [secret, "another"])
    assert len(shown) <= LONGEST
    assert (shown[:7], shown[-7:]) == ("no *** ", " *** no")
    assert not [each for each in ("hor", "horse", "ple", "staple") if each in shown]
