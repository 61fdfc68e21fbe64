"""What compute-sanitizer's words say. Its exit code alone is not enough: it is also 0 where it saw no kernel at all."""
import re

# Each tool closes with a line of its own for what it watched; nothing but zeros may stand there.
CLEAN = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"}


def complaint(label, text):
    """Why a run under the tool that begins its label is not clean; nothing where it is."""
    clean = CLEAN[label.split("-")[0]]
    summaries = re.findall(r"\w+ SUMMARY: .*", text)
    wrong = [line.strip() for line in summaries if not line.startswith(clean)]
    if wrong:
        return wrong[0][:200]
    if not summaries:
        unseen = re.search(r"terminated before first instrumented API call|[^\n]*No attachable process[^\n]*", text)
        return f"it did not say '{clean}'" + (f": {unseen.group(0).strip(' =')}" if unseen else "")
    return ""
