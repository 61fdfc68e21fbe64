"""Writes a run for TensorBoard: an event file for each case, which also has its tags, and a copy of run.json."""
import os
import pathlib
import shutil

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from dpbench.errors import UsageError


def folder_of(run, folder, case):
    """Returns the case's folder, with a folder for each part of the case's name: TensorBoard shows the path."""
    return pathlib.Path(folder, run.name, *(part for part in case.name.split("/") if part.strip(".")))


def table(tags):
    return "\n".join(["| tag | value |", "|---|---|"] + [f"| {name} | {value} |" for name, value in tags.items()])


def summaries(case):
    """Yields (step, summary) of a case's settings, tags, figures and curves."""
    yield 0, hparams_pb(case.settings, trial_id=case.name)
    yield 0, text_pb("tags", table(case.tags))
    for name, value in case.figures.items():
        yield 0, scalar_pb(name, value)
    for name, curve in case.curves.items():
        for index, value in curve:
            yield index, scalar_pb(name, value)


def export(run, folder):
    place = pathlib.Path(folder, run.name)
    try:
        place.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(f"{place} is there already. Remove it, or use another folder") from error
    for case in run.cases:
        writer = EventFileWriter(str(folder_of(run, folder, case)))
        for step, summary in summaries(case):
            writer.add_event(Event(wall_time=run.time_s, step=step, summary=summary))
        writer.close()
    shutil.copyfile(run.path, place / "run.json")
    return f"tensorboard --logdir {os.path.abspath(folder)}"
