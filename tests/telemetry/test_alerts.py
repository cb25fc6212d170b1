"""Alerts and dashboards: the metrics that they use are exported, promtool accepts them, and each alert is provoked."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import prometheus, stat, timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

from cli.service.exposition import certificate_metrics, import_metrics, log_metrics, server_metrics
from projections.queries.vitals import Vitals
from telemetry.prometheus import PrometheusMeasures, encoded_metrics
from tests.support.alerts import PROMTOOL, needs_promtool
from tests.support.alerts import RULES as RULE_OF

ROOT = Path(__file__).parent.parent.parent
PROMETHEUS, GRAFANA = ROOT / "deploy" / "prometheus", ROOT / "deploy" / "grafana"
RULES = list(RULE_OF.values())
BOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
RULE_TESTS = ("alerts_test.yml", "alerts_slow_test.yml")
OPTIONS = {"timeseries": timeseries.Options, "stat": stat.Options}
_NAME = re.compile(r"\bimportledger_[a-z0-9_]+")

register_default_plugins()


def promtool(*arguments: str, at: Path, **more: Any) -> "subprocess.CompletedProcess[str]":
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *arguments], cwd=at, capture_output=True, text=True, check=False, **more)


@cache
def rule_tests() -> list[dict[str, Any]]:
    """Tests of the rules for promtool."""
    return [test for file in RULE_TESTS for test in yaml.safe_load((PROMETHEUS / file).read_text())["tests"]]


@cache
def exported() -> set[str]:
    """The names of all series that a service shows."""
    counting = PrometheusMeasures("api-1")
    names = set()
    for family in counting.registry.collect():
        is_histogram = family.type == "histogram"
        suffixes = ("_bucket", "_sum", "_count") if is_histogram else ("_total",) if family.type == "counter" else ("",)
        names |= {family.name + suffix for suffix in suffixes}
    seen = Vitals()
    for families in (log_metrics(seen), import_metrics(seen), server_metrics(seen, seen), certificate_metrics(())):
        names |= {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    return names | {"importledger_database_up", "importledger_durability_replicated"}


def panels(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(file.read_text())["panels"])


def expressions() -> list[str]:
    wanted = [rule["expr"] for rule in RULES]
    return wanted + [target["expr"] for file in BOARDS for panel in panels(file) for target in panel["targets"]]


@pytest.mark.promise("dashboards-loaded-into-grafana")
@pytest.mark.parametrize("expression", expressions())
def test_what_is_asked_for_is_exported(expression: str) -> None:
    names = set(_NAME.findall(expression))
    assert names <= exported()
    assert names or "up{" in expression


@pytest.mark.promise("every-alert-runbook-section")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_severity_a_sentence_a_section_and_two_tests(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    section = rule["alert"].lower()
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["runbook"] == f"docs/how-to/answer-alerts.md#{section}"
    assert rule["annotations"]["runbook_url"].endswith(f"/docs/guide/how-to/answer-alerts.html#{section}")
    runbook = (ROOT / "docs" / "how-to" / "answer-alerts.md").read_text()
    assert re.findall(r"^## (\w+)$", runbook, re.M) == [rule["alert"] for rule in RULES]
    [body] = re.findall(rf"^## {rule['alert']}\n(.*?)(?=^## |\Z)", runbook, re.M | re.S)
    assert "**What it means:**" in body
    assert "**What to do:**" in body
    tests = rule_tests()
    assert {f"{rule['alert']} fires", f"{rule['alert']} is silent"} <= {test["name"] for test in tests}


@pytest.mark.promise("every-alert-runbook-section")
@needs_promtool
def test_promtool_takes_rules_and_configuration_and_each_alert_fires(folder: Path) -> None:
    """Each alert is tried beside its own tests, which takes a tenth of trying all rules in every test."""
    files = [name for file in RULE_TESTS for name in one_rule_a_file(PROMETHEUS / file, folder)]
    assert sum(len(json.loads((folder / name).read_text())["tests"]) for name in files) == len(rule_tests())
    for arguments, place in (
        (("check", "config", "prometheus.yml"), PROMETHEUS),
        (("check", "rules", "alerts.yml"), PROMETHEUS),
        (("test", "rules", *files), folder),
    ):
        ended = promtool(*arguments, at=place)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def one_rule_a_file(file: Path, folder: Path) -> Iterator[str]:
    """Write the tests of each rule, and the rule, into files of their own; their names. JSON is YAML, too."""
    file_of_tests = yaml.safe_load(file.read_text())
    assert file_of_tests["rule_files"] == ["alerts.yml"]
    for rule in RULES:
        tests = [test for test in file_of_tests["tests"] if test["name"].split()[0] == rule["alert"]]
        if tests:
            group = {"name": "one", "rules": [rule]}
            (folder / f"{rule['alert']}.yml").write_text(json.dumps({"groups": [group]}))
            own = file_of_tests | {"rule_files": [f"{rule['alert']}.yml"], "tests": tests}
            name = f"{rule['alert']}_{file.name}"
            (folder / name).write_text(json.dumps(own))
            yield name


@pytest.mark.promise("dashboards-loaded-into-grafana")
@needs_promtool
def test_promtool_reads_every_expression_of_the_dashboards(folder: Path) -> None:
    wanted = [expression.replace("$__rate_interval", "5m") for expression in expressions()]
    rules = [{"record": f"test:{number}", "expr": expression} for number, expression in enumerate(wanted)]
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    ended = promtool("check", "rules", "rules.yml", at=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@needs_promtool
def test_promtool_finds_nothing_odd_in_what_is_exported(folder: Path) -> None:
    counting = PrometheusMeasures("api-1")
    counting.answered("GET", None, 200, 0.1)
    ended = promtool("check", "metrics", at=folder, input=encoded_metrics(counting.registry, "")[0].decode())
    assert "error" not in ended.stderr.lower(), ended.stderr


def written(board: dict[str, Any]) -> Any:
    return json.loads(JSONEncoder().encode(Dashboard.from_json(board)))


def lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the places of values that are missing or different afterwards. Added defaults are no loss."""
    match before, after:
        case dict(), dict():
            for name, value in before.items():
                yield from lost(value, after.get(name), f"{path}.{name}" if path else name)
        case list(), list() if len(before) == len(after):
            for number, pair in enumerate(zip(before, after, strict=True)):
                yield from lost(*pair, f"{path}.{number}")
        case _ if before != after:
            yield path


@pytest.mark.promise("dashboards-loaded-into-grafana")
@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_a_dashboard_has_what_grafana_loads(file: Path) -> None:
    """Grafana's own types are generated from its sources. They drop unknown names: a mistyped name is lost."""
    board = json.loads(file.read_text())
    assert list(lost(board, written(board))) == []
    for panel in Dashboard.from_json(board).panels or ():
        assert isinstance(panel, Panel)
        assert isinstance(panel.options, OPTIONS[panel.type_val])
        assert panel.targets
        assert all(isinstance(target, prometheus.Dataquery) and target.expr for target in panel.targets)
    assert (board["uid"], board["schemaVersion"] >= 36) == (f"importledger-{file.stem}", True)
    assert {"title", "tags", "time", "templating", "refresh"} <= board.keys()
    [variable] = board["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == ("datasource", "datasource", "prometheus")
    shown = board["panels"]
    assert len({panel["id"] for panel in shown}) == len(shown)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in shown}) == len(shown)
    for panel in shown:
        assert panel["type"] in ("timeseries", "stat")
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])


@pytest.mark.promise("dashboards-loaded-into-grafana")
def test_every_metric_has_a_panel() -> None:
    wanted = {
        name
        for file in BOARDS
        for panel in panels(file)
        for target in panel["targets"]
        for name in _NAME.findall(target["expr"])
    }
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in wanted}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()} <= families


def test_the_provisioning_names_what_grafana_reads() -> None:
    [provider] = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "importledger.yml").read_text())["providers"]
    assert provider["type"] == "file"
    [source] = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert source["type"] == "prometheus"
