"""Simulates two hosts on one machine: network namespaces joined by a virtual cable with an adjustable rate.

Needs root and iproute2."""
import os
import subprocess

ADDRESSES = ("10.99.71.1", "10.99.71.2")
CABLES = ("va", "vb")


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class TwoHosts:
    def __init__(self, program, a_core_each=False):
        """With a_core_each, host 0 uses only CPU 0 and host 1 uses only CPU 1."""
        self.program, self.a_core_each = program, a_core_each
        self.names = (f"dpbench-a{os.getpid()}", f"dpbench-b{os.getpid()}")
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", CABLES[0], "netns", self.names[0], "type", "veth", "peer", "name", CABLES[1], "netns", self.names[1])
        for name, address, cable in zip(self.names, ADDRESSES, CABLES):
            # A second network interface, on which dpbench must not listen.
            ip("-n", name, "link", "add", "aside", "type", "veth", "peer", "name", "nowhere")
            ip("-n", name, "addr", "add", address.replace(".71.", ".72.") + "/24", "dev", "aside")
            ip("-n", name, "link", "set", "aside", "up")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", cable)
            ip("-n", name, "link", "set", "lo", "up")
            self.plug(name, cable, "up")

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    @staticmethod
    def plug(name, cable, state):
        ip("-n", name, "link", "set", cable, state)

    def cable(self, state):
        self.plug(self.names[0], CABLES[0], state)

    def rate(self, rate):
        """Limits the rate of the cable in each direction, e.g. to 100mbit, including frame headers."""
        for name, cable in zip(self.names, CABLES):
            subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", cable, "root", "tbf", "rate", rate, "burst", "32kbit", "latency", "1s"],
                           check=True)

    def start(self, flags, each, nonce, **variables):
        """Starts one front (dpbench process) per rank, as a launcher does, with `each` ranks on each host. Returns the
        processes."""
        started = []
        for rank in range(2 * each):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(2 * each), "LOCAL_RANK": str(rank % each), "LOCAL_WORLD_SIZE": str(each),
                   "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29512", "DPBENCH_NONCE": nonce, **variables}
            cores = ["taskset", "-c", str(rank // each)] if self.a_core_each else []
            started.append(subprocess.Popen(["ip", "netns", "exec", self.names[rank // each], *cores, self.program, *flags],
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env))
        return started
