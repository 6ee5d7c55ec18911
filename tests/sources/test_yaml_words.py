"""Hints on signs that YAML takes for its own, in a fleet file."""

from pathlib import Path

import pytest

from fleet.files import formats


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("cron: */15 * * * *", 'aliases are not supported; write out the values; put it in '
                               'quotes: `cron: "*/15 * * * *"`'),
        ("cron: @daily", 'that cannot start any token (while scanning for the next token); put it in '
                         'quotes: `cron: "@daily"`'),
        ("name: %x", 'put it in quotes: `name: "%x"`'),
        ("name: ? x", 'mapping keys are not allowed here; put it in quotes: `name: "? x"`'),
        ("name: `x`", 'put it in quotes: `name: "`x`"`'),
        ("name: !x", 'put it in quotes: `name: "!x"`'),
        ("name: #1-laptop", 'line 2, column 11: what follows # is a comment, so name is empty; put it in quotes: '
                            '`name: "#1-laptop"`'),
        ('path: "C:\\x"', "in double quotes a backslash begins a code; in single quotes it is one: `path: 'C:\\x'`"),
        ("name: backup: nas", 'mapping values are not allowed here; put it in quotes: `name: "backup: nas"`'),
    ],
)  # fmt: skip
def test_a_sign_of_yaml_at_the_beginning_of_a_value_is_answered_with_quotes(
    line: str, text: str, tmp_path: Path
) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(f"sources:\n  - {line}\n    kind: local\n")
    with pytest.raises(formats.UnreadableFile) as refused:
        formats.read(str(file))
    assert text in str(refused.value)


def test_the_cure_can_be_read_and_comments_are_comments(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "#top\nsources: #all\n  - name: '#1' # the first\n    path: 'C:\\x'\n    window: #nightly\n      - start: a\n"
        '    copy_to: # none yet\n    cron: "*/15 * * * *"\n'
    )
    [row] = formats.read(str(file))["sources"]
    assert row == {"name": "#1", "path": "C:\\x", "window": [{"start": "a"}], "copy_to": None, "cron": "*/15 * * * *"}
