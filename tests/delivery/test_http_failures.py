import pytest

from delivery.http.failures import HttpAnswer, failure_of, quoted, seconds_until
from jobs.outcomes import BreakerTarget
from tests.factories import NOON


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("0", 0), ("1", 1), (" 120 ", 120), ("86400", 86_400), ("86401", 86_400), ("9" * 400, 86_400)),
        *(("", 0), ("-5", 0), ("1.5", 0), ("soon", 0), ("NaN", 0), ("inf", 0), ("1e3", 0), ("²", 0), ("٣", 0)),
        *(("Mon, 99 Foo 2026 12:00:00 GMT", 0), ("Mon, 02 Mar 99999 12:00:00 GMT", 0)),
        ("Mon, 02 Mar 2026 12:05:00 GMT", 300),
        ("Mon, 02 Mar 2026 13:05:00 +0100", 300),
        ("Mon, 02 Mar 2026 12:05:00 -0000", 300),
        ("Monday, 02-Mar-26 12:05:00 GMT", 300),
        ("Mon Mar  2 12:05:00 2026", 300),
        ("Mon, 02 Mar 2026 11:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
    ],
)
def test_a_retry_after_is_seconds_or_a_date_within_a_day(text, seconds):
    assert seconds_until(text, NOON) == seconds


def test_a_failure_of_a_redirect_says_where_it_leads_and_quotes_no_page():
    answer = HttpAnswer(302, b"<html>moved", leads_to="https://example.org:443")
    error = failure_of(answer, BreakerTarget("host:a", "a"), "https://a:443", (), answer.facts, NOON).error
    assert "answered 302 Found, which leads to https://example.org:443" in error
    assert "html" not in error


def test_a_quote_is_one_line_of_print_and_hides_a_secret_before_it_is_cut():
    assert quoted("a\tb\r\n\x07c\ufffd\u202e") == "a b c�"
    assert len(quoted("long " * 100)) == 200
    body = "x" * 190 + " Bearer s3cret-t0ken"
    assert "s3c" not in quoted(body, ("Bearer s3cret-t0ken", "Bearer", "s3cret-t0ken"))
