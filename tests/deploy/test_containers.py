"""What compose and Kubernetes run: images, commands, variables, secrets, limits and health."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic_settings import BaseSettings

from skipmap.cli.arguments import build_parser

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
MANIFESTS = [
    (path, document)
    for path in sorted((ROOT / "deploy/kubernetes").rglob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]

SETTINGS = ["skipmap.settings", "models.settings", "workers.settings", "api.settings", "web.settings"]
OF_OTHERS = {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}
SECRET = re.compile(r"PASSWORD|TOKEN|SECRET|_URL$")


@dataclass(frozen=True)
class Container:
    """A container of either kind. ``environment``: values as written; None where Kubernetes takes it elsewhere."""

    name: str
    image: str
    command: list[str]
    environment: dict[str, str | None]
    checks: list[Any]
    limits: dict[str, Any]
    raw: dict[str, Any]
    pod: dict[str, Any] | None = None
    is_patch: bool = False


def _of_compose() -> Iterator[Container]:
    for name, service in COMPOSE["services"].items():
        yield Container(
            f"compose:{name}",
            service["image"],
            service.get("command", []),
            service.get("environment", {}),
            [service.get("healthcheck")],
            service["deploy"]["resources"]["limits"],
            service,
        )


def _of_kubernetes() -> Iterator[Container]:
    for path, document in MANIFESTS:
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for each in pod.get("containers", []):
            variables = {entry["name"]: entry.get("value") for entry in each.get("env", [])}
            yield Container(
                f"{path.parent.name}:{document['metadata']['name']}",
                each["image"],
                each.get("args", []),
                variables,
                [each.get(kind) for kind in ("startupProbe", "livenessProbe")],
                each["resources"]["limits"],
                each,
                pod,
                "overlays" in path.parts,
            )


CONTAINERS = [*_of_compose(), *_of_kubernetes()]
OURS = [each for each in CONTAINERS if each.image.startswith("skipmap:") and not each.is_patch]
ENDING = ("migrate", "keys", "secret")
LASTING = [each for each in CONTAINERS if not each.name.endswith(ENDING) and not each.is_patch]


def _each(containers: list[Container]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("container", containers, ids=lambda container: container.name)


@pytest.fixture(scope="session")
def variables() -> set[str]:
    """Every variable that some process of ours reads."""
    found = set()
    for name in SETTINGS:
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and issubclass(value, BaseSettings):
                found |= {f"SKIPMAP_{field.upper()}" for field in value.model_fields}
    return found


def test_both_kinds_run_every_process():
    for kind in ("compose", "base"):
        names = {each.name.split(":")[1] for each in OURS if each.name.startswith(kind)}
        assert {"api", "worker", "reconciler", "migrate"} <= names


@_each(CONTAINERS)
def test_images_have_an_exact_version(container: Container):
    assert re.fullmatch(r"[a-z/]+:\d+\.\d+(\.\d+)?(-(cpu|cuda))?", container.image)


@_each(OURS)
def test_images_of_ours_have_the_version_of_the_code(container: Container):
    from skipmap import __version__

    assert container.image.removeprefix("skipmap:").split("-")[0] == __version__


@_each(OURS)
def test_commands_name_modules_that_exist(container: Container):
    match container.command:
        case ["python", "-m", module, *_]:
            assert find_spec(module) is not None
            assert not hasattr(importlib.import_module(module), "__path__") or find_spec(f"{module}.__main__")
        case ["gunicorn", "-c", file, application]:
            assert (ROOT / file).is_file()
            assert find_spec(application.split(":")[0]) is not None
        case ["skipmap", *words]:
            assert build_parser().parse_args(words).run
        case other:
            pytest.fail(f"not a command of ours: {other}")


@_each(CONTAINERS)
def test_variables_are_read_by_somebody(container: Container, variables: set[str]):
    assert set(container.environment) <= variables | OF_OTHERS


def test_shared_variables_are_read_by_somebody(variables: set[str]):
    shared = [document["data"] for _, document in MANIFESTS if document["kind"] == "ConfigMap"]
    image = re.findall(r"SKIPMAP_[A-Z_]+(?==)", (ROOT / "deploy/docker/Dockerfile").read_text())
    assert shared
    assert {*image, *(name for data in shared for name in data)} <= variables


@_each(CONTAINERS)
def test_secrets_are_not_written_down(container: Container):
    for name, value in container.environment.items():
        if SECRET.search(name) and value is not None:
            # An address without a password is none.
            assert "${POSTGRES_PASSWORD:?" in value or "@" not in value
            assert "PASSWORD" not in name or value.startswith("${")


def test_no_secret_is_among_the_manifests():
    assert all(document["kind"] != "Secret" for _, document in MANIFESTS)


@_each(LASTING)
def test_health_is_checked(container: Container):
    assert all(container.checks)
    for check in container.checks:
        command = check.get("test", check.get("exec", {}).get("command", []))
        if "deploy.docker.health" in command:
            assert command[-1] == container.name.split(":")[1].removesuffix("-gpu")
        else:
            assert command[:1] == ["CMD"] or check["httpGet"]["path"] == "/healthz"


@_each(CONTAINERS)
def test_resources_are_limited(container: Container):
    keys = {"cpus", "memory"} if container.name.startswith("compose") else {"cpu", "memory"}
    assert keys <= set(container.limits)


@_each(OURS)
def test_nothing_is_allowed_that_is_not_needed(container: Container):
    if container.pod is None:
        assert container.raw["read_only"]
        assert container.raw["cap_drop"] == ["ALL"]
        assert container.raw["security_opt"] == ["no-new-privileges:true"]
        return
    assert container.raw["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container.pod["securityContext"]["runAsNonRoot"]
    assert container.pod["automountServiceAccountToken"] is False


@_each([each for each in OURS if each.command[-1:] == ["workers"]])
def test_workers_have_time_to_give_their_chunk_back(container: Container):
    grace = (
        container.raw.get("stop_grace_period")
        if container.pod is None
        else f"{container.pod['terminationGracePeriodSeconds']}s"
    )
    assert grace == "120s"


@_each([each for each in CONTAINERS if each.name.startswith("compose")])
def test_what_a_service_waits_for_exists_and_does_not_wait_for_it(container: Container):
    services = COMPOSE["services"]
    waiting = [(container.name.split(":")[1], ())]
    while waiting:
        name, before = waiting.pop()
        assert name not in before
        for other, how in services[name].get("depends_on", {}).items():
            ends = services[other].get("healthcheck", {}).get("disable", False)
            assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy")
            waiting.append((other, (*before, name)))


def test_volumes_and_networks_of_compose_are_declared():
    for service in COMPOSE["services"].values():
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        for volume in service.get("volumes", []):
            source = volume.rsplit(":/", 1)[0].removeprefix("${MODELS:-").removesuffix("}")
            assert source in COMPOSE["volumes"]


def test_the_broker_forgets_nothing_silently():
    options = " ".join(COMPOSE["services"]["redis"]["command"])
    assert "--appendonly yes" in options
    assert "--maxmemory-policy noeviction" in options
