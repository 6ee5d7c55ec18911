"""Where a drill may run a server of its own for some minutes, with the programs of the embedded one."""

from pathlib import Path
from typing import Any

from backupsched.embedded.binaries import make_passable, server_bin
from backupsched.embedded.layout import Layout


def scratch_server(var_dir: Path) -> dict[str, Any]:
    """The directory of the server's programs, the (uid, gid) it runs as (None: the present ones), and a folder that
    this account can reach. Raises: EmbeddedDatabaseError, OSError."""
    layout = Layout(var_dir)
    account = layout.account and (layout.account.pw_uid, layout.account.pw_gid)
    folder = layout.home.with_name(f"{layout.home.name}-drills")
    make_passable(folder)
    return {"programs": str(server_bin(layout)), "account": account, "folder": str(folder)}
