"""Finds leftovers of dpbench runs: processes, directories, listening sockets and shared memory segments."""
import fcntl
import glob
import os
import time

PLACES = ("/dev/shm", os.environ.get("TMPDIR") or "/tmp", "/tmp")


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes_of(mark):
    """Returns {pid: program} of the live processes with `mark`, a NAME=VALUE, in their environment."""
    found = {}
    for path in glob.glob("/proc/[0-9]*"):
        state = read(path + "/stat").rpartition(b") ")[2][:1]
        if state not in (b"", b"Z") and mark.encode() in read(path + "/environ").split(b"\0"):
            found[int(os.path.basename(path))] = read(path + "/cmdline").split(b"\0")[0].decode()
    return found


def ranks_of(mark, worker="dpbench-worker"):
    return [pid for pid, program in processes_of(mark).items() if os.path.basename(program) == worker]


def variables_of(pid):
    """Returns the initial environment of a process."""
    return dict(word.decode(errors="replace").split("=", 1) for word in read(f"/proc/{pid}/environ").split(b"\0") if b"=" in word)


def directory_of(pid):
    """Returns the private directory of the run to which the rank process belongs; empty if it has none."""
    return variables_of(pid).get("DPBENCH_RUN_DIR", "")


def parent_of(pid):
    return int((read(f"/proc/{pid}/stat").rpartition(b") ")[2].split() or [0, 0])[1])


def is_dead(path):
    """True if the directory exists but no run holds its lock, so its run has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def directories():
    """Returns the private directories of this user's runs, live or dead."""
    prefix = f"dpbench-{os.getuid()}-"
    return {path for place in set(PLACES) for start in ("", ".new-") for path in glob.glob(f"{place}/{start}{prefix}*")}


def of_dead_runs():
    """Returns the private directories of dead runs.

    Checks twice, because runs of other tests create directories before they lock them."""
    found = {path for path in directories() if is_dead(path)}
    if found:
        time.sleep(0.2)
    return {path for path in found if is_dead(path)}


def others_in_shared_memory():
    """Returns names in /dev/shm that dpbench, LibTorch or Gloo may have created, except the directories of runs."""
    names = set(os.listdir("/dev/shm"))
    return {name for name in names if any(word in name for word in ("dpbench", "torch", "gloo")) and f"/dev/shm/{name}" not in directories()}


def wait_until(condition, seconds):
    """Returns True once the condition holds, False after the timeout."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def listeners_of(pids):
    """Returns the sorted (address, port) pairs of the TCP and UDP sockets on which the processes listen."""
    inodes = set()
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                inodes.add(os.readlink(path))
            except OSError:
                pass
    found = set()
    # /proc/PID/net lists the sockets of the process's network namespace.
    tables = [f"/proc/{pid}/net/{table}" for pid in pids for table in ("tcp", "tcp6", "udp", "udp6")]
    for table in tables:
        for line in read(table).decode().splitlines()[1:]:
            fields = line.split()
            waiting = fields[3] == "0A" or "/udp" in table
            if waiting and f"socket:[{fields[9]}]" in inodes:
                address, port = fields[1].split(":")
                found.add((address_of(address), int(port, 16)))
    return sorted(found)


def address_of(word):
    """Returns the text form of an IP address in /proc/net, which has hexadecimal 32-bit words in host byte order."""
    groups = [bytes.fromhex(word[i:i + 8])[::-1] for i in range(0, len(word), 8)]
    data = b"".join(groups)
    if len(data) == 4:
        return ".".join(str(byte) for byte in data)
    if data[:12] == bytes(10) + b"\xff\xff":
        return ".".join(str(byte) for byte in data[12:])
    return ":".join(data[i:i + 2].hex() for i in range(0, 16, 2))


def is_loopback(address):
    return address.startswith("127.") or address == ":".join(["0000"] * 7 + ["0001"])
