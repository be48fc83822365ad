"""Engines: what they are asked for, and what is made of their answers. Kubernetes' answers are recorded ones."""

from __future__ import annotations

import types

import pytest

from replay.errors import EngineError, FileError, UsageError
from replay.fleet import coordinator
from replay.fleet.coordinator import MOST_RESTARTS, MOST_SILENT, coordinate
from replay.fleet.engines import engine
from replay.fleet.night import begin_night

from .night_factory import MATRIX, night_of, run

SETTINGS = """kubernetes = { image = "r/replay", claim = "fleet", mount = "/f", node_selector = { gpu = "h100" } }
"""


class Workers:
    """An engine whose workers end as they are told: "" when they have done everything."""

    def __init__(self, night, endings):
        self.night, self.endings, self.started, self.is_closed = night, list(endings), 0, False

    def slots(self, kind):
        return 1

    def start(self, night, kind, slot):
        self.started += 1
        ending = self.endings.pop(0) if len(self.endings) > 1 else self.endings[0]
        if not ending:
            run(night)
        return types.SimpleNamespace(ended=lambda: ending, stop=lambda: None)

    def close(self):
        self.is_closed = True


def test_a_worker_that_died_is_started_again(tmp_path):
    night = night_of(tmp_path, 2)
    workers = Workers(night, ["killed", ""])
    troubles = coordinate(night, workers, sleep=lambda s: None)
    assert (workers.started, troubles, workers.is_closed) == (2, ["killed"], True)


def test_workers_that_only_die_are_given_up(tmp_path):
    night = night_of(tmp_path, 2)
    workers = Workers(night, ["no such device"])
    troubles = coordinate(night, workers, sleep=lambda s: None)
    assert workers.started == MOST_RESTARTS + 1
    assert troubles == ["no such device"]


def test_an_engine_that_is_none_is_refused():
    with pytest.raises(UsageError, match="no engine 'cloud'"):
        engine("cloud")


def test_slurm_needs_its_commands(monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineError, match="no srun"):
        engine("slurm")


@pytest.mark.parametrize("silent", [MOST_SILENT, MOST_SILENT + 1])
def test_results_that_do_not_answer_for_a_moment_end_no_night(tmp_path, monkeypatch, silent):
    night = night_of(tmp_path, 1)
    answers, real = [None] * 2 + [FileError("no answer", where="s3://b")] * silent, coordinator.standing

    def standing(night):
        if answers and (answer := answers.pop(0)) is not None:
            raise answer
        return real(night)

    monkeypatch.setattr(coordinator, "standing", standing)
    workers = Workers(night, [""])
    running = types.SimpleNamespace(ended=lambda: None if answers else "", stop=lambda: None)
    workers.start = lambda *asked: running
    if silent > MOST_SILENT:
        with pytest.raises(FileError, match="no answer"):
            coordinate(night, workers, sleep=lambda s: None)
    else:
        assert coordinate(night, workers, sleep=lambda s: None) == ["s3://b: no answer"]
    assert workers.is_closed


class Batch:
    """Kubernetes' jobs, as its server answers: version 1.29, recorded by hand from its documentation."""

    def __init__(self, *statuses):
        self.statuses, self.asked, self.deleted = list(statuses), [], []

    def create_namespaced_job(self, namespace, body):
        self.asked.append((namespace, body))

    def read_namespaced_job_status(self, name, namespace):
        status = self.statuses.pop(0)
        if isinstance(status, Exception):
            raise status
        return types.SimpleNamespace(status=status)

    def delete_namespaced_job(self, name, namespace, propagation_policy):
        self.deleted.append(name)


def status(kubernetes, **of):
    return kubernetes.client.V1JobStatus(**of)


def kind_of(tmp_path, settings=SETTINGS):
    matrix = MATRIX.replace('driver = "emulator"\n', f'driver = "emulator"\n{settings}')
    night = night_of(tmp_path, 1, matrix=matrix)
    return night, night.matrix.kind("cpu")


def test_a_job_of_kubernetes_is_one_pod_that_is_not_started_again(tmp_path):
    kubernetes = pytest.importorskip("kubernetes")
    from replay.fleet.engines.k8s import _Kubernetes

    gone, away = kubernetes.client.ApiException(status=404), kubernetes.client.ApiException(status=500)
    failed = kubernetes.client.V1JobCondition(
        type="Failed", status="True", reason="BackoffLimitExceeded", message="Job has reached the limit"
    )
    batch = Batch(status(kubernetes, active=1), away, status(kubernetes, succeeded=1),
                  status(kubernetes, failed=1, conditions=[failed]), gone)  # fmt: skip
    night, kind = kind_of(tmp_path)
    job = _Kubernetes(batch).start(night, kind, 3)
    namespace, body = batch.asked[0]
    assert (namespace, body["spec"]["backoffLimit"]) == ("default", 0)
    pod = body["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["nodeSelector"] == {"gpu": "h100"}
    assert pod["containers"][0]["command"][-6:] == ["--kind", "cpu", "--slot", "3", "--node", "$(NODE)"]
    assert [job.ended() for _ in range(3)] == [None, None, ""]
    assert "reached the limit" in job.ended()
    assert "was deleted" in job.ended()
    job.stop()
    assert batch.deleted == [body["metadata"]["name"]]
    client = kubernetes.client.ApiClient()  # takes the fields for those of a job
    assert client.sanitize_for_serialization(body) == body


def test_with_results_at_a_url_a_pod_needs_no_volume(tmp_path, monkeypatch):
    pytest.importorskip("kubernetes")
    pytest.importorskip("fsspec")
    from replay.fleet.engines.k8s import job_of
    from replay.fleet.sharing.mirror import Mirror

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    planned, kind = kind_of(tmp_path, 'kubernetes = { image = "x", secret = "bucket" }\n')
    place = Mirror(f"file://{tmp_path}/shared")
    night = begin_night(place.folder / "night", planned.plan, planned.folder / "matrix.toml", place)
    pod = job_of(night, kind, 0, "j")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][:4] == ["replay", "fleet", "work", f"file://{tmp_path}/shared/night"]
    assert container["envFrom"] == [{"secretRef": {"name": "bucket"}}]
    assert "volumes" not in pod


def test_what_kubernetes_is_not_told_is_named(tmp_path):
    pytest.importorskip("kubernetes")
    from replay.fleet.engines.k8s import _Kubernetes

    night, kind = kind_of(tmp_path, 'kubernetes = { image = "x" }\n')
    with pytest.raises(UsageError, match="names no claim"):
        _Kubernetes(Batch()).start(night, kind, 0)
