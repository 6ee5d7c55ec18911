"""Texts on pages: those of sources and programs cannot turn a line, and what is typed is shown as code.

Each finished page is processed, in its text alone: an attribute, such as the value of a field, is sent back unchanged.
"""

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from declarations.surfaces.printable import STEERS_A_TERMINAL, printable

PARTS = re.compile(
    r"""<!--.*?-->
    | <(?P<kept>textarea|script|style|option)\b.*?</(?P=kept)>
    | (?P<plain><(?P<name>title|pre|code|svg)\b.*?</(?P=name)>)
    | <[a-z/!](?:"[^"]*"|'[^']*'|[^'">]+)*+>
    | (?P<text>(?:[^<]|<(?![a-z/!]))++)""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
TYPED = re.compile(r"`([^`\n]+)`")


class ShownText:
    """Middleware, inside of all that looks at the length of an answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self._get_response(request)
        if isinstance(answer, HttpResponse) and answer.get("Content-Type", "").startswith("text/html"):
            page = answer.content.decode(answer.charset)
            if "`" in page or STEERS_A_TERMINAL.search(page):
                answer.content = shown(page)
        return answer


def shown(page: str) -> str:
    """HTML with escapes, such as `\\u202e`, for characters that would steer, and code for text in backticks."""
    return PARTS.sub(_part, page.replace("\r\n", "\n"))


def _part(found: re.Match[str]) -> str:
    if text := found["text"]:
        return TYPED.sub(r"<code>\1</code>", printable(text))
    return printable(found[0]) if found["plain"] else found[0]
