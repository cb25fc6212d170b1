"""The manifests of deploy/kubernetes: schemas, hardening, probes, secrets and network policies."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventstore.operations.rights import ROLES as SERVICE_ROLES

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "deploy" / "kubernetes"
EXAMPLES = FOLDER / "examples"
CLUSTER = EXAMPLES / "postgres-cloudnativepg.yaml"
MANIFESTS = [
    path
    for path in (*sorted(FOLDER.glob("*.yaml")), *sorted(EXAMPLES.glob("*.yaml")))
    if path.name != "kustomization.yaml" and path != CLUSTER
]
VALIDATE = Path(sys.executable).parent / "kubernetes-validate"


def objects(*kinds: str) -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        for manifest in yaml.safe_load_all(path.read_text()):
            if not kinds or manifest["kind"] in kinds:
                yield manifest


def name_of(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


PODS = list(objects("Deployment", "StatefulSet", "Job"))
ROLES = {
    name: next(o for o in PODS if o["metadata"]["name"] == f"importledger-{name}")
    for name in ("api", "relay", "worker")
}


@pytest.mark.promise("every-file-deploy-compose")
@pytest.mark.skipif(not VALIDATE.exists(), reason="kubernetes-validate is not in this environment: make setup")
def test_every_manifest_is_valid_by_the_schemas_of_kubernetes() -> None:
    validated = subprocess.run(
        [str(VALIDATE), "--strict", "--quiet", *map(str, MANIFESTS)], capture_output=True, text=True, check=False
    )
    assert validated.returncode == 0, validated.stdout + validated.stderr


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
@pytest.mark.parametrize("folder", [FOLDER, EXAMPLES], ids=lambda path: path.name)
def test_kustomize_puts_every_manifest_together(folder: Path) -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    assert built.returncode == 0, built.stderr
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert set(listed) == {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    count = sum(len(list(yaml.safe_load_all((folder / name).read_text()))) for name in listed)
    assert len(list(yaml.safe_load_all(built.stdout))) == count


@pytest.mark.api_top_10("API8")
@pytest.mark.parametrize("pods", PODS, ids=name_of)
def test_every_pod_is_without_root_with_a_read_only_root_and_limits(pods: dict[str, Any]) -> None:
    pod = pods["spec"]["template"]["spec"]
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        for part in ("requests", "limits"):
            assert {"cpu", "memory"} <= container["resources"][part].keys()


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_probes_a_budget_and_a_rolling_update(role: str) -> None:
    spec = ROLES[role]["spec"]
    [container] = spec["template"]["spec"]["containers"]
    assert container["args"][0] == role
    port, metrics = container["ports"]
    assert metrics["name"] == "metrics"
    paths = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    for probe, path in paths.items():
        assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    [budget] = [
        manifest
        for manifest in objects("PodDisruptionBudget")
        if manifest["metadata"]["name"] == f"importledger-{role}"
    ]
    assert budget["spec"]["selector"] == spec["selector"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_ports_are_those_of_the_roles() -> None:
    [configuration] = objects("ConfigMap")
    containers = {role: spec["spec"]["template"]["spec"]["containers"][0] for role, spec in ROLES.items()}
    ports = {role: container["ports"][0] for role, container in containers.items()}
    metrics = {str(container["ports"][1]["containerPort"]) for container in containers.values()}
    assert metrics == {configuration["data"]["IMPORTLEDGER_METRICS_PORT"]}
    assert configuration["data"]["IMPORTLEDGER_METRICS_HOST"] == "0.0.0.0"
    assert ports["relay"] == ports["worker"]
    assert str(ports["relay"]["containerPort"]) == configuration["data"]["IMPORTLEDGER_HEALTH_PORT"]
    assert containers["api"]["args"] == ["api", "--host", "0.0.0.0", "--port", str(ports["api"]["containerPort"])]
    [service] = [manifest for manifest in objects("Service") if manifest["metadata"]["name"] == "importledger"]
    assert service["spec"]["ports"][0]["targetPort"] == ports["api"]["name"]


@pytest.mark.asvs("V13.2.2", "V13.3.1")
def test_no_manifest_has_a_secret() -> None:
    assert not list(objects("Secret"))
    for path in MANIFESTS:
        assert not re.search(r"postgres(ql)?://|redis://|password:", path.read_text(), re.I), path


def test_image_and_migration_are_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    [job] = objects("Job")
    assert job["metadata"]["name"] == f"importledger-migrate-{version.replace('.', '-')}"
    images = {c["image"] for p in PODS for c in p["spec"]["template"]["spec"]["containers"]}
    others = images - {f"importledger:{version}"}
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in others)
    [image] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["images"]
    assert image["newTag"] == version


@pytest.mark.asvs("V13.2.5")
def test_network_policies_select_existing_pods_and_refuse_the_rest() -> None:
    labels = [pods["spec"]["template"]["metadata"]["labels"] for pods in PODS]
    for policy in objects("NetworkPolicy"):
        selected = policy["spec"]["podSelector"]["matchLabels"]
        assert any(selected.items() <= entry.items() for entry in labels), name_of(policy)
    [general] = [entry for entry in objects("NetworkPolicy") if entry["metadata"]["name"] == "importledger"]
    assert general["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert general["spec"]["ingress"] == []
    opened = {
        policy["metadata"]["name"]: [port["port"] for entry in policy["spec"]["ingress"] for port in entry["ports"]]
        for policy in objects("NetworkPolicy")
        if policy["metadata"]["name"].startswith("importledger-") and "redis" not in policy["metadata"]["name"]
    }
    assert opened == {"importledger-api": ["http"], "importledger-metrics": ["metrics"]}


CLUSTER_FIELDS = """
instances primaryUpdateStrategy primaryUpdateMethod postgresql synchronous method number dataDurability failoverQuorum
parameters bootstrap initdb database owner secret name encoding localeCollate localeCType managed roles ensure login
passwordSecret inRoles storage walStorage size resources affinity enablePodAntiAffinity topologyKey podAntiAffinityType
"""
"""Fields of CloudNativePG 1.28. It refuses others."""


def names_in(value: Any) -> set[str]:
    """Names in a manifest, except below parameters and resources, where any name is valid."""
    match value:
        case dict():
            below = [names_in(inner) for name, inner in value.items() if name not in ("parameters", "resources")]
            return value.keys() | set().union(*below)
        case list():
            return set().union(*map(names_in, value))
    return set()


def test_the_example_cluster_acknowledges_nothing_alone() -> None:
    cluster = yaml.safe_load(CLUSTER.read_text())
    assert (cluster["apiVersion"], cluster["kind"]) == ("postgresql.cnpg.io/v1", "Cluster")
    spec = cluster["spec"]
    assert names_in(spec) <= set(CLUSTER_FIELDS.split())
    assert spec["instances"] == 3
    synchronous = {"method": "any", "number": 1, "dataDurability": "required", "failoverQuorum": True}
    assert spec["postgresql"]["synchronous"] == synchronous
    roles = {role["name"] for role in spec["managed"]["roles"]}
    assert roles == {*SERVICE_ROLES.values(), spec["bootstrap"]["initdb"]["owner"]}
    assert f"{cluster['metadata']['name']}-ca" in (FOLDER / "api.yaml").read_text()
