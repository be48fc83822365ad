"""Kubernetes: a job of one pod for each worker, in the namespace of the current context.

A kind's `kubernetes` table has `image` (with replay in it), `claim` (a volume that every node can write, which is
mounted at `mount` and holds corpus and results; results at a URL need none, where the image has the corpus), `secret`
(the name of one whose entries are environment variables of the pod: what a bucket asks for), and `resources`,
`node_selector` and `namespace` as Kubernetes has them. The pod is never started again by Kubernetes: the folder of the
night knows which nodes to leave out.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import Any

import kubernetes

from replay.errors import EngineError, UsageError
from replay.fleet.engines import Running, worker_words
from replay.fleet.matrix import Kind
from replay.fleet.night import Night
from replay.store.urls import is_url

_KNOWN = {"image", "claim", "mount", "resources", "node_selector", "namespace", "secret"}
_GONE = 404


class _Job:
    def __init__(self, batch: Any, namespace: str, name: str) -> None:
        self._batch, self._namespace, self._name = batch, namespace, name

    def ended(self) -> str | None:
        try:
            status = self._batch.read_namespaced_job_status(self._name, self._namespace).status
        except kubernetes.client.ApiException as error:
            if error.status == _GONE:
                return f"job {self._name} was deleted"
            return None  # a server that does not answer loses nothing
        if status.succeeded:
            return ""
        if not status.failed:
            return None
        reasons = [item.message or item.reason for item in status.conditions or () if item.type == "Failed"]
        return f"job {self._name} failed: {reasons[0] if reasons else 'see its pod'}"

    def stop(self) -> None:
        with contextlib.suppress(kubernetes.client.ApiException):
            self._batch.delete_namespaced_job(self._name, self._namespace, propagation_policy="Background")


class _Kubernetes:
    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def slots(self, kind: Kind) -> int:
        return kind.workers

    def start(self, night: Night, kind: Kind, slot: int) -> Running:
        settings = kind.settings.get("kubernetes", {})
        namespace = str(settings.get("namespace", "default"))
        name = f"replay-{kind.name}-{slot}-{secrets.token_hex(4)}".lower().replace("_", "-").replace(".", "-")
        try:
            self._batch.create_namespaced_job(namespace, job_of(night, kind, slot, name))
        except kubernetes.client.ApiException as error:
            raise EngineError(f"Kubernetes refuses the job: {error.reason}", where=kind.name) from None
        return _Job(self._batch, namespace, name)

    def close(self) -> None:
        """Its jobs are deleted one by one."""


def job_of(night: Night, kind: Kind, slot: int, name: str) -> dict[str, Any]:
    """What Kubernetes is asked for. Raises UsageError."""
    settings = kind.settings.get("kubernetes", {})
    if unknown := sorted(set(settings) - _KNOWN):
        raise UsageError(
            f"kubernetes has {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}", where=kind.name
        )
    needs_volume = bool({"claim", "mount"} & set(settings)) or not is_url(night.address)
    for key in ("image", "claim", "mount") if needs_volume else ("image",):
        if not isinstance(settings.get(key), str):
            raise UsageError(f"kubernetes names no {key}", where=kind.name, next="docs/fleet.md shows one")
    command = ["replay", *worker_words(night, kind, slot), "--node", "$(NODE)"]
    container = {
        "name": "replay", "image": settings["image"], "command": command,
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": settings.get("resources", {}),
    }  # fmt: skip
    pod: dict[str, Any] = {
        "restartPolicy": "Never", "containers": [container], "nodeSelector": settings.get("node_selector", {}),
    }  # fmt: skip
    if needs_volume:
        container["volumeMounts"] = [{"name": "fleet", "mountPath": settings["mount"]}]
        pod["volumes"] = [{"name": "fleet", "persistentVolumeClaim": {"claimName": settings["claim"]}}]
    if "secret" in settings:
        container["envFrom"] = [{"secretRef": {"name": str(settings["secret"])}}]
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": {"app": "replay-fleet"}},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": {"app": "replay-fleet"}}, "spec": pod}},
    }  # fmt: skip


def begin() -> _Kubernetes:
    """By the context that kubectl uses, or that of the pod this runs in. Raises EngineError where there is none."""
    try:
        kubernetes.config.load_config()
    except kubernetes.config.ConfigException as error:
        raise EngineError(f"no cluster is known: {error}", next="set KUBECONFIG") from None
    return _Kubernetes(kubernetes.client.BatchV1Api())
