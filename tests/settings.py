"""The project's settings, on a database server of the test session's own.

Its directory is chosen here, before the settings are read, and handed on by the environment to test processes.
"""

import os
import tempfile
from pathlib import Path

if "BACKUPSCHED_TEST_VAR" not in os.environ:
    made = Path(tempfile.mkdtemp(prefix="backupsched-tests-"))
    made.chmod(0o711)  # the server's own user passes through it
    os.environ["BACKUPSCHED_TEST_VAR"] = str(made)
os.environ["BACKUPSCHED_VAR"] = os.environ["BACKUPSCHED_TEST_VAR"]
# kept from run to run: a list of fonts takes seconds
os.environ.setdefault("MPLCONFIGDIR", str(Path(__file__).parents[1] / ".pytest_cache" / "matplotlib"))

from backupsched.settings import *  # noqa: F403

SELF_BACKUP_TO = "none"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# else each test's client looks at all static files before its first request, a tenth of what a page costs here
WHITENOISE_AUTOREFRESH = True
