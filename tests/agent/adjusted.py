"""Run the agent with some of its constants changed: `adjusted.py '{"LOOK_EVERY": 0.1}' run …`.

Beside constants: `addresses_from`, a file with own addresses, a line each, in place of the system's;
`boot_clock_from`, a file with the seconds by which the clock since boot is ahead; `unresponsive`: no netlink. `deaf`:
signals interrupt a thread beside the one that waits, which so learns of them as of one that comes just before it waits:
by nothing but what wakes it.
"""

import json
import signal
import sys
import threading
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.agent.processes import as_module

    agent = as_module()
    adjust = json.loads(sys.argv[1])
    addresses = adjust.pop("addresses_from", None)
    boot_clock = adjust.pop("boot_clock_from", None)
    if adjust.pop("unresponsive", False):
        agent.netlink = lambda: None
    if adjust.pop("deaf", False):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP, signal.SIGTERM))
    if addresses:
        agent.own_addresses = lambda: Path(addresses).read_text(encoding="utf-8").split()
    if boot_clock:
        real = time.clock_gettime
        agent.time.clock_gettime = lambda clock: real(clock) + float(Path(boot_clock).read_text(encoding="utf-8"))
    for name, value in adjust.items():
        assert hasattr(agent, name), f"the agent has no {name}"
        setattr(agent, name, value)
    sys.exit(agent.main(sys.argv[2:]))
