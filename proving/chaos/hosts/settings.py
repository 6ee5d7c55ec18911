"""The project's settings for web and qcluster, with an agent that checks in every ten seconds."""

from backupsched.settings import *  # noqa: F403

CHECK_IN_EVERY = 10
