"""Writes a run for MLflow: a database and a folder of artifacts. A parent run has the report,
its child runs are the cases."""
import os
import pathlib

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from dpbench.errors import UsageError

EXPERIMENT = "dpbench"
MOST_METRICS = 1000  # MLflow's limit on the metrics of one call


def opened(folder):
    """Returns a client of the folder's database, and the id of dpbench's experiment."""
    os.makedirs(folder, exist_ok=True)
    place = pathlib.Path(folder).resolve()
    client = MlflowClient(tracking_uri=f"sqlite:///{place}/mlflow.db")
    known = client.get_experiment_by_name(EXPERIMENT)
    artifacts = (place / "artifacts").as_uri()
    return client, known.experiment_id if known else client.create_experiment(EXPERIMENT, artifact_location=artifacts)


def export(run, folder):
    client, experiment = opened(folder)
    if client.search_runs([experiment], f"attributes.run_name = '{run.name}'"):
        raise UsageError(f"{folder} has the run {run.name} already. Use another folder")
    start_ms, end_ms = int(1000 * run.time_s), int(1000 * run.end_s)
    whole = client.create_run(experiment, start_time=start_ms, tags=run.tags, run_name=run.name).info.run_id
    for case in run.cases:
        tags = case.tags | {"mlflow.parentRunId": whole}
        one = client.create_run(experiment, start_time=start_ms, tags=tags, run_name=case.name).info.run_id
        points = [(name, value, 0) for name, value in case.figures.items()]
        points += [(name, value, index) for name, curve in case.curves.items() for index, value in curve]
        metrics = [Metric(name, value, start_ms, index) for name, value, index in points]
        client.log_batch(one, params=[Param(name, str(value)) for name, value in case.settings.items()])
        for first in range(0, len(metrics), MOST_METRICS):
            client.log_batch(one, metrics[first:first + MOST_METRICS])
        client.set_terminated(one, "FINISHED" if case.ok else "FAILED", end_ms)
    client.log_text(whole, pathlib.Path(run.path).read_text(encoding="utf-8"), "run.json")
    client.set_terminated(whole, end_time=end_ms)
    return f"mlflow ui --backend-store-uri sqlite:///{pathlib.Path(folder).resolve()}/mlflow.db"
