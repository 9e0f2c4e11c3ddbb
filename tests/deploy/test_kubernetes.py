from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2] / "deploy/kubernetes"
FILES = {path: list(yaml.safe_load_all(path.read_text())) for path in sorted(ROOT.rglob("*.yaml"))}
KUSTOMIZATIONS = [path for path in FILES if path.name == "kustomization.yaml"]
OBJECTS = [(path, each) for path in FILES if path not in KUSTOMIZATIONS for each in FILES[path]]
BASE = [each for path, each in OBJECTS if path.parent.name == "base"]
PODS = {
    each["metadata"]["name"]: each["spec"]["template"]
    for each in BASE
    if each["kind"] in ("Deployment", "Job")
}


def _kind(kind: str) -> pytest.MarkDecorator:
    found = [each for each in BASE if each["kind"] == kind]
    return pytest.mark.parametrize("thing", found, ids=lambda each: each["metadata"]["name"])


def _label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _matches(selector: dict[str, str]) -> list[str]:
    """Names of the workloads whose pods have these labels."""
    return [name for name, pod in PODS.items() if selector.items() <= pod["metadata"]["labels"].items()]


@pytest.mark.parametrize(
    ("path", "thing"), OBJECTS, ids=lambda value: _label(value) if isinstance(value, Path) else ""
)
def test_objects_are_named(path: Path, thing: dict[str, Any]):
    assert re.fullmatch(r"([a-z0-9.]+/)?v\d+((alpha|beta)\d+)?", thing["apiVersion"])
    assert re.fullmatch(r"[A-Z]\w+", thing["kind"])
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", thing["metadata"]["name"])


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=_label)
def test_kustomizations_name_what_exists(path: Path):
    (content,) = FILES[path]
    for name in content["resources"] + content.get("components", []):
        target = path.parent / name
        assert (target / "kustomization.yaml").is_file() if target.is_dir() else target in FILES
    for patch in content.get("patches", []):
        assert "patch" in patch or path.parent / patch["path"] in FILES


@pytest.mark.parametrize("path", [path for path in FILES if path not in KUSTOMIZATIONS], ids=_label)
def test_every_file_is_used(path: Path):
    (content,) = FILES[path.with_name("kustomization.yaml")]
    named = [*content["resources"], *(patch.get("path") for patch in content.get("patches", []))]
    assert path.name in named


@pytest.mark.parametrize(
    "overlay", sorted(path.parent for path in KUSTOMIZATIONS if "overlays" in path.parts), ids=_label
)
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_overlays_can_be_put_together(overlay: Path):
    # Rendering is local; without a configuration no cluster can be reached either.
    done = subprocess.run(
        ["kubectl", "--kubeconfig=/dev/null", "kustomize", str(overlay)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (worker,) = (
        each
        for each in yaml.safe_load_all(done.stdout)
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "worker"
    )
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    assert ("replicas" in worker["spec"]) is not overlay.name.endswith("-keda")
    assert ("nvidia.com/gpu" in container["resources"]["limits"]) is overlay.name.startswith("gpu")
    assert container["image"].endswith("-cuda") is overlay.name.startswith("gpu")


@_kind("Deployment")
def test_deployments_select_their_own_pods(thing: dict[str, Any]):
    assert _matches(thing["spec"]["selector"]["matchLabels"]) == [thing["metadata"]["name"]]


@_kind("Deployment")
def test_each_deployment_has_a_disruption_budget(thing: dict[str, Any]):
    budgets = [each for each in BASE if each["kind"] == "PodDisruptionBudget"]
    name = thing["metadata"]["name"]
    assert [_matches(each["spec"]["selector"]["matchLabels"]) for each in budgets].count([name]) == 1


@_kind("PodDisruptionBudget")
def test_budgets_leave_room_to_drain_a_node(thing: dict[str, Any]):
    assert len(_matches(thing["spec"]["selector"]["matchLabels"])) == 1
    assert thing["spec"]["maxUnavailable"] >= 1


@_kind("Service")
def test_services_lead_to_a_port_that_is_open(thing: dict[str, Any]):
    (name,) = _matches(thing["spec"]["selector"])
    open_ports = {port["name"] for each in PODS[name]["spec"]["containers"] for port in each.get("ports", [])}
    assert {port["targetPort"] for port in thing["spec"]["ports"]} <= open_ports


@_kind("NetworkPolicy")
def test_network_policies_are_about_pods_that_exist(thing: dict[str, Any]):
    assert _matches(thing["spec"]["podSelector"].get("matchLabels", {}))


@pytest.mark.parametrize("kind", ["HorizontalPodAutoscaler", "ScaledObject"])
def test_scalers_have_a_target_whose_size_is_theirs(kind: str):
    (scaler,) = [each for _, each in OBJECTS if each["kind"] == kind]
    target = scaler["spec"]["scaleTargetRef"]
    (deployment,) = [
        each for each in BASE if each["kind"] == target["kind"] and each["metadata"]["name"] == target["name"]
    ]
    removed = (
        "{op: remove, path: /spec/replicas}" in (ROOT / "components/keda/kustomization.yaml").read_text()
    )
    assert "replicas" not in deployment["spec"] or (kind == "ScaledObject" and removed)


@pytest.mark.parametrize("name", PODS)
def test_pods_mount_volumes_that_they_have(name: str):
    pod = PODS[name]["spec"]
    mounted = {mount["name"] for each in pod["containers"] for mount in each["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", PODS)
def test_pods_take_addresses_from_the_one_secret(name: str):
    references = [
        entry["valueFrom"]["secretKeyRef"]
        for each in PODS[name]["spec"]["containers"]
        for entry in each["env"]
        if entry["name"].endswith("_URL")
    ]
    assert {"name": "skipmap-addresses", "key": "database-url"} in references
    assert {reference["name"] for reference in references} == {"skipmap-addresses"}


def test_the_reconciler_has_a_second():
    (reconciler,) = [
        each for each in BASE if each["metadata"]["name"] == "reconciler" and each["kind"] == "Deployment"
    ]
    assert reconciler["spec"]["replicas"] == 2


def test_a_worker_on_a_gpu_has_one_of_its_own():
    (patch,) = FILES[ROOT / "overlays/gpu/worker.yaml"]
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    for amounts in container["resources"].values():
        assert amounts["nvidia.com/gpu"] == 1
