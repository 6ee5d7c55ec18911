"""Removes advice from a program's message: it is meant for a user who typed its command, and is wrong here.

`clear host_keys and re-run with --sftp-pin-host-key` would trust any server that answers; `unlock`, `rebuild-index` and
`prune` of restic are done by the scheduler, in their turn, and change data that another restic may be working on; a
user cannot add an option to a program. The error stays in the message; the advice about it comes from the scheduler.
"""

import re

OPTION = r"--[a-z][\w-]{1,40}"
ADVISES = (
    r"(?:please |you can |can |it is recommended to ){0,3}(?:re-?run|run|use|try|add|set|specify|consider|clear|fix)\b"
)
SPACE, REST, WORDS = r"\s{0,9}", r"[^.;()]{0,150}", r"[^.;]{0,150}"
"""Bounded: part of a message comes from a server, which could make one of 64 KiB that takes hours to search."""
ADVICE = (
    # a clause behind a sign: `… -- if it has changed, clear host_keys and re-run with --flag`
    re.compile(
        rf"{SPACE}(?:--|\u2014|;|,|\(|(?<=\.)){SPACE}(?:if {WORDS}?,{SPACE})?{ADVISES}{REST}"
        rf"(?:{OPTION}|`rclone |`?restic |rebuild-index|repair index){REST}\)?",
        re.IGNORECASE,
    ),
    # of rclone: a configuration that is not kept in a separate file
    re.compile(rf"[^.;:]{{0,150}}(?:`rclone config|rclone config |in the config and re-run){WORDS}", re.IGNORECASE),
    # of restic
    re.compile(rf"[;.,]?{SPACE}[^;.,]{{0,150}}the `?unlock`? command{WORDS}", re.IGNORECASE),
    re.compile(
        rf"[;.,]?{SPACE}(?:this is non-critical, )?(?:please |you can )?run [`'](?:restic )?[\w -]{{1,100}}['`]{WORDS}",
        re.IGNORECASE,
    ),
    # of ssh: the keys are pinned in a source or a repository, not in a file of an account
    re.compile(rf"[;.,]?{SPACE}(?:add correct host key in|remove with:|ssh-keygen -f)[^;]{{0,150}}", re.IGNORECASE),
    # of the programs of PostgreSQL and MariaDB
    re.compile(rf"[;.,]?{SPACE}(?:hint: )?(?:consider using|try) {WORDS}{OPTION}{WORDS}", re.IGNORECASE),
)
"""Patterns of advice. None matches across a `.` or `;` except at its beginning: the sentences before and
after it stay.
"""
SIGNS = re.compile(
    r"--[a-z]|rclone |restic |rebuild-index|repair index|in the config|unlock|\brun [`']|host key|remove with|"
    r"ssh-keygen"
)
"""Signs of advice: a message without any contains no advice, and is not searched."""
LONGEST = 2_000


def without_middle(text: str) -> str:
    """A text of at most LONGEST characters; its secrets are removed before, since half of one would stay. A server may
    make a program print thousands of long texts, and searching each takes time.
    """
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]} … {text[-half:]}"


def without_advice(text: str) -> str:
    """A message without its program's advice, or the whole message if nothing would stay."""
    if not SIGNS.search(text.lower()):
        return text.strip().rstrip(",;:(").strip() or text
    told = text
    for pattern in ADVICE:
        told = pattern.sub("", told)
    told = told.strip().rstrip(",;:(").strip()
    return told or text
