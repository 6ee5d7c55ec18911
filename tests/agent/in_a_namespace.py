"""Run in a network namespace without anything: server and agent on loopback, then an address comes.

Prints the reason of each announcement, with the address if it was sent. `unshare -n python in_a_namespace.py`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.agent.contract import TOKEN, ContractServer
    from tests.agent.processes import Machine
    from tests.waiting import eventually

    subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
    adjust = {"LOOK_EVERY": 3600.0, "SETTLE": 0.2, "NETWORK_GAP": 0.0}
    with ContractServer() as server, tempfile.TemporaryDirectory() as home:
        machine = Machine(Path(home), {"TZ": "UTC"})
        machine.store(url=server.url, token=TOKEN, source="laptop")
        with machine.running(adjust) as agent:
            agent.wait_for("laptops: protected")
            subprocess.run(("ip", "address", "add", "10.99.0.1/32", "dev", "lo"), check=True)
            eventually(lambda: len(server.asked) == 2)
    for body in server.check_ins():
        sys.stdout.write(" ".join([body["reason"], *body["addresses"]]) + "\n")
