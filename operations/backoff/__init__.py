"""Pictures of backoff: the retries of many jobs that failed together, and the load that they make.

`study.py` computes the retries and counts, `waits.py` describes the waits as text, `charts.py` draws with matplotlib,
for files and pages alike. No picture is drawn within a page: its `<img>` asks for the file, as the admin's preview
does.
"""

FORMATS = ("svg", "png")
SCALES = ("auto", "linear", "log")
THEMES = ("light", "dark")
LIMITS = ("max_delay", "max_failures", "give_up_after")
"""The limits of a rule, in addition to its parameters."""
SIZES = {1: (1150, 620), 2: (1260, 760)}
"""The sizes of a picture of one study, and of two side by side: hundredths of an inch, and CSS pixels of a page."""
