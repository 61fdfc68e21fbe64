"""Two hosts on this machine: network namespaces joined by a cable whose rate can be set. Wants root and iproute2."""
import os
import subprocess

ADDRESSES = ("10.99.71.1", "10.99.71.2")
CABLES = ("va", "vb")


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class TwoHosts:
    def __init__(self, program):
        self.program = program
        self.names = (f"dpbench-a{os.getpid()}", f"dpbench-b{os.getpid()}")
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", CABLES[0], "netns", self.names[0], "type", "veth", "peer", "name", CABLES[1], "netns", self.names[1])
        for name, address, cable in zip(self.names, ADDRESSES, CABLES):
            ip("-n", name, "link", "add", "aside", "type", "veth", "peer", "name", "nowhere")  # nothing may listen there
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
        """What the cable carries each way, as in 100mbit: frames with all their headers."""
        for name, cable in zip(self.names, CABLES):
            subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", cable, "root", "tbf", "rate", rate, "burst", "32kbit", "latency", "1s"],
                           check=True)

    def start(self, flags, each, nonce, **variables):
        """A front for each of 2 x each ranks, as a launcher would start them."""
        started = []
        for rank in range(2 * each):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(2 * each), "LOCAL_RANK": str(rank % each), "LOCAL_WORLD_SIZE": str(each),
                   "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29512", "DPBENCH_NONCE": nonce, **variables}
            started.append(subprocess.Popen(["ip", "netns", "exec", self.names[rank // each], self.program, *flags],
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env))
        return started
