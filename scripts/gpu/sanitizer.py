"""Parses the output of compute-sanitizer. The tool's exit code is not enough: it is 0 even if no kernel was
instrumented."""
import re

# {tool: the summary line that compute-sanitizer prints on success}.
CLEAN = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"}


def complaint(label, text):
    """Returns the reason why a sanitizer run is not clean, or "" if it is. The label begins with the sanitizer tool's
    name."""
    clean = CLEAN[label.split("-")[0]]
    summaries = re.findall(r"\w+ SUMMARY: .*", text)
    wrong = [line.strip() for line in summaries if not line.startswith(clean)]
    if wrong:
        return wrong[0][:200]
    if not summaries:
        unseen = re.search(r"terminated before first instrumented API call|[^\n]*No attachable process[^\n]*", text)
        return f"the output lacks '{clean}'" + (f": {unseen.group(0).strip(' =')}" if unseen else "")
    return ""
