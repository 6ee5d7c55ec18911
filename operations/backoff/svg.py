"""What matplotlib wrote as SVG, made fit for a page: read aloud, without ids, in the page's own letters. Pure."""

import hashlib
import re
from html import escape

from operations.backoff.themes import DARK, LIGHT, Theme

HEAD = re.compile(r"\A.*?<svg [^>]*?viewBox=\"([^\"]+)\"[^>]*>", re.DOTALL)
STYLE_SHEET = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
"""It says how lines are joined, as attributes do here: the policy of the pages allows no style sheet in a page."""
METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
GROUP_ID = re.compile(r"<g id=\"[^\"]*\">")
FONTS = re.compile(r"'DejaVu Sans',[^;\"]*?sans-serif")
SPACE = re.compile(r"\n\s*")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def finished(written: str, title: str, description: str) -> str:
    """One `<svg>` element, named and described for those who do not see it, without date or program.

    Groups lose their ids: two pictures on a page would share them. Ids that are referred to are digests of what they
    name, so equal ones name equal things.
    """
    title, description = (CONTROL.sub(" ", text) for text in (title, description))
    key = hashlib.sha256(f"{title}\0{description}".encode()).hexdigest()[:12]
    found = HEAD.match(written)
    if found is None:
        raise ValueError("matplotlib wrote no SVG")
    width, height = (float(part) for part in found[1].split()[2:])
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{found[1]}" width="{width:g}pt" height="{height:g}pt" role="img" '
        'stroke-linejoin="round" stroke-linecap="butt" '
        f'aria-labelledby="title-{key}" aria-describedby="about-{key}">'
        f'<title id="title-{key}">{escape(title)}</title><desc id="about-{key}">{escape(description)}</desc>'
    )
    body = STYLE_SHEET.sub("", METADATA.sub("", written[found.end() :]))
    body = GROUP_ID.sub("<g>", FONTS.sub("system-ui, 'DejaVu Sans', sans-serif", body))
    return head + SPACE.sub("\n", body)


def themed(picture: str, longest: int) -> str:
    """A light picture that turns dark with its page: each colour is a pair of both, of which `color-scheme` chooses.

    `longest`: how many retries it has colours for. The size is left to the page.
    """
    dark = _named(DARK, longest)
    dark["background"] = f"var(--color-base-900, {DARK.background})"  # that of the admin's dark pages
    for name, colour in _named(LIGHT, longest).items():
        picture = picture.replace(f": {colour}", f": light-dark({colour}, {dark[name]})")
    return re.sub(r' width="[^"]*" height="[^"]*"', ' class="w-full"', picture, count=1)


def _named(theme: Theme, longest: int) -> dict[str, str]:
    """The colours of a picture by name, those of retries by number; retries may share one."""
    colours = dict.fromkeys(theme.retries(longest)) if longest else {}
    return theme.words | {str(number): colour for number, colour in enumerate(colours)}
