"""The openings of docstrings, in the rooms that have been rewritten so far: a noun or a verb."""

import ast
import re

import pytest

from tests.documents import ROOT

REWRITTEN = ("backups", "backups/copying", "backups/hooks", "jobs/models", "schedules")
"""Folders, without those below them."""
OPENINGS = re.compile(r"\s*(What|Of|Those|Which|Whose|Whether|In|For)\b")


@pytest.mark.parametrize("folder", REWRITTEN)
def test_docstrings_open_with_a_noun_or_a_verb(folder: str) -> None:
    texts = {
        f"{file.name}:{node.lineno}": node.value.value
        for file in (ROOT / folder).glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    assert texts
    assert {where: text for where, text in texts.items() if OPENINGS.match(text)} == {}
