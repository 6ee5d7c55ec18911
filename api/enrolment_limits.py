"""How often agents, and whoever has no token, may ask. `operations/limits.py` counts."""

from operations.limits import Limit, LimitOfOneProcess
from operations.limits import network_of as network_of

FAILED_TOKENS = Limit("token", 20, 60)
"""Per network of the sender. A valid token is accepted all the same: behind a proxy all agents have one address."""

FAILED_CODES = Limit("code", 20, 60)
"""Per first group of the code and network of the sender. No such code is looked at beyond it; others are, since behind
a proxy all agents have one address."""

FAILED_ENROLMENTS = Limit("enrolment", 200, 60)
"""Per network of the sender, whatever the codes. A code that is right is accepted all the same."""

REQUESTS = LimitOfOneProcess("agent", 60, 60)
"""Per source: each check-in is one."""

ROTATIONS = Limit("rotate", 10, 3600)
"""Per source: each is a row that stays."""

ASKED_FOR = Limit("now", 10, 3600)
"""Backups asked for, per source: each goes ahead of the whole fleet."""

NEW_ADDRESSES = Limit("address", 60, 3600)
"""Per source: addresses that its last check-in did not name. Workers contact those that a source may have moved to, so
a stolen token could have them look for hosts. A laptop has some four in each network that it comes to."""
