"""Openings of docstrings, phrases, and names of classes, in all of the product and in `proving`."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.product import PACKAGES, PROVING, ROOT, paths

WORDS = (
    r"\s*(What|How|Where|When|Why|Who|Whose|Which|Whether|Those|That|There|Of|In|For|On|At|By|To|From|With|Without"
    r"|Under|Before|After|Between|Through|Until|Among|Within|Against|As|If|So|Per|Into|Over|About|Beside)\b"
)
OPENINGS = re.compile(WORDS)
IN_QUOTES = re.compile(rf"[\"'](?:\\\n)?{WORDS}")
"""Such an opening anywhere in a source: parsing all of them takes three seconds."""
PHRASES = re.compile(
    r"(?<![Tt]here )\bis (?:no|none)\b(?! (?:longer|more)\b)|[.;] (?:None|[Ee]mpty): |\(None: "
    r"|\bof (?:its|our|their) own\b|\b(?:folder|file|disk|path)s? of this host\b|\bdirector(?:y|ies) of this host\b"
)
"""Said as *is not a*, *None if …*, *its, separate*, *on this host*. In a text without its line breaks."""
BREAK = re.compile(r"\s+(?:# )?")
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
OF_DJANGO = {"Command", "Migration", "DatabaseWrapper"}
"""Names that Django wants for each command, migration and database backend."""
OUTCOMES = {"Succeeded", "Failed", "Cancelled", "Released", "Postponed"}
"""Words for what a handler returns (glossary): read where they are returned, as `return Failed(…)`."""
AGENT = "agent/backupsched-agent"
NOUNS = {"Finding", "Listing", "Meaning", "Opening", "Sighting", "Standing"}
PARTICIPLE = re.compile(r"[A-Z][a-z]+(ed|ing)")


def sources() -> Iterator[tuple[str, str]]:
    """Path and text of each module."""
    return ((path, (ROOT / path).read_text(encoding="utf-8")) for path in paths((*PACKAGES, PROVING)))


def classes() -> Iterator[tuple[str, str]]:
    """Path of a module, and the name of each class at its top; a private one without its underscore."""
    return ((path, name.removeprefix("_")) for path, source in sources() for name in CLASS.findall(source))


def test_docstrings_open_with_a_noun_or_a_verb() -> None:
    texts = {
        f"{path}:{node.lineno}": node.value.value
        for path, source in (*sources(), (AGENT, (ROOT / AGENT).read_text(encoding="utf-8")))
        if "/migrations/" not in path and IN_QUOTES.search(source)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    assert texts
    assert {where: text for where, text in texts.items() if OPENINGS.match(text)} == {}


def test_no_text_has_a_phrase_that_english_does_not_use() -> None:
    found = {path: PHRASES.findall(BREAK.sub(" ", source)) for path, source in sources() if "/migrations/" not in path}
    assert found
    assert {path: phrases for path, phrases in found.items() if phrases} == {}


def test_a_class_has_its_name_alone() -> None:
    places = defaultdict(list)
    for path, name in classes():
        if not path.startswith("demo/") and name not in OF_DJANGO:
            places[name].append(path)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_class_is_a_bare_participle() -> None:
    found = {(path, name) for path, name in classes() if PARTICIPLE.fullmatch(name)}
    assert {each for each in found if each[1] not in OUTCOMES | NOUNS} == set()
