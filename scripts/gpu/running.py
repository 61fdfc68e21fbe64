"""Runs the commands of a part of scripts/gpu-check within its time limit and records the results."""
import os
import signal
import subprocess
import time


def shares_of_cores(count):
    """Returns a set of cores for each of `count` concurrent commands. dpbench pins its ranks to the first cores that it
    may use, so without separate sets all commands would use the same cores."""
    cores = sorted(os.sched_getaffinity(0))
    return [set(cores[len(cores) * i // count:len(cores) * (i + 1) // count]) or set(cores) for i in range(count)]


def start(command, where, environment, cores):
    """Starts a command on these cores, with its output in `where`.out and `where`.err. Returns None if it cannot be
    started; `where`.err then has the reason."""
    with open(f"{where}.out", "wb") as out, open(f"{where}.err", "wb") as err:
        try:
            return subprocess.Popen(command, stdout=out, stderr=err, env=environment, start_new_session=True,
                                    preexec_fn=lambda: os.sched_setaffinity(0, cores))
        except (OSError, subprocess.SubprocessError) as error:
            err.write(f"cannot be started: {error}\n".encode())
            return None


def stop(process):
    """Stops a command's process group, with SIGTERM first: dpbench then stops its workers and saves its results."""
    for with_signal, timeout_s in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
        try:
            os.killpg(process.pid, with_signal)
        except ProcessLookupError:
            return
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            pass


def run_at_once(commands, folder, environment, limit_s):
    """Runs (label, command) pairs concurrently. Returns [(exit code, seconds)]; the exit code is None after a
    timeout."""
    begin = time.monotonic()
    processes = [start(command, folder / label, environment, cores)
                 for (label, command), cores in zip(commands, shares_of_cores(len(commands)))]
    ends = [None if process else (127, 0.0) for process in processes]
    try:
        while None in ends and time.monotonic() - begin < limit_s:
            for at, process in enumerate(processes):
                if ends[at] is None and process.poll() is not None:
                    ends[at] = (process.returncode, time.monotonic() - begin)
            time.sleep(0.02)
    finally:
        for process in filter(None, processes):
            stop(process)
    return [end or (None, time.monotonic() - begin) for end in ends]


def read(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def complaint(part, folder, label, code):
    """Returns (status, reason) of a finished command: ("passed", "") on success, else ("failed" or "skipped", why)."""
    if code == 77:
        return "skipped", f"{label} exited 77: {last_line(read(folder / (label + '.err')))}"
    wrong = part.judge(label, read(folder / (label + ".out")) + read(folder / (label + ".err"))) if part.judge else ""
    if wrong:
        return "failed", f"{label}: {wrong}"
    if code != 0:
        return "failed", f"{label} exited {code}: {last_line(read(folder / (label + '.err')))}"
    return "passed", ""


def run_part(part, machine, limit_s):
    """Runs a part of gpu-check. Returns its record: status (passed, failed, timeout or skipped), reason, and the exit
    code of each command."""
    record = {"name": part.name, "what": part.what, "limit_s": part.limit_s, "status": "passed", "reason": "", "seconds": 0.0, "commands": []}
    if part.broken:
        record.update(status="failed", reason=part.broken)
        return record
    if part.lacks or limit_s <= 0:
        record.update(status="skipped", reason=part.lacks or "the run's time limit was reached (--budget)")
        return record
    environment = machine.environment_for(part.gpus)
    folder = machine.out / part.name
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    size = len(part.commands) if part.at_once else 1
    for first in range(0, len(part.commands), size):
        batch = part.commands[first:first + size]
        left = limit_s - (time.monotonic() - begin)
        ends = run_at_once(batch, folder, environment, left) if left > 0 else [(None, 0.0)] * len(batch)
        for (label, command), (code, seconds) in zip(batch, ends):
            record["commands"].append({"label": label, "command": [str(word) for word in command], "exit": code, "seconds": round(seconds, 2)})
            if code is None and record["status"] != "timeout":
                record.update(status="timeout", reason=f"{label} was stopped at the part's limit of {limit_s:.0f} s")
            elif code is not None and record["status"] in ("passed", "skipped"):
                status, reason = complaint(part, folder, label, code)
                if status != "passed":
                    record.update(status=status, reason=reason)
        if record["status"] == "timeout":
            break
    record["seconds"] = round(time.monotonic() - begin, 2)
    return record
