"""Evaluate alerts on metrics of services with promtool, as Prometheus would."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

ALERTS = Path(__file__).parent.parent.parent / "deploy" / "prometheus" / "alerts.yml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
}
PROMTOOL = shutil.which("promtool")
MINUTES = {"1d": 1_500}
"""Minutes for which the metrics continue, by the alert's wait: longer than the wait [default: 480]."""
_COUNTERS = ("_total", "_bucket", "_sum", "_count")

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not here: it comes with Debian's prometheus")

Series = Mapping[str, float]
"""A number for each name with its labels, as a service shows them."""


def shown(*registries: CollectorRegistry) -> Series:
    return {
        _series(sample.name, sample.labels): sample.value
        for registry in registries
        for family in registry.collect()
        for sample in family.samples
    }


def scraped(text: str) -> Series:
    return {
        _series(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _series(name: str, labels: Mapping[str, str]) -> str:
    text = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{text}}}"


class Case(msgspec.Struct, frozen=True):
    """An alert, and the metrics of a service at two moments. Counters grow by their difference every minute.

    `limit` replaces a number of the expression that no test can reach by a smaller one. With `gauges_grow`, gauges
    grow like counters.
    """

    alert: str
    before: Series
    now: Series
    limit: tuple[str, float] | None = None
    gauges_grow: bool = False

    def rule(self) -> dict[str, Any]:
        rule = dict(RULES[self.alert])
        if self.limit is not None:
            assert rule["expr"].count(self.limit[0]) == 1, rule["expr"]
            rule["expr"] = rule["expr"].replace(self.limit[0], f"{self.limit[1]:.9f}")
        return rule

    def test(self) -> dict[str, Any]:
        """Return a test for promtool, which fails if the alert fires."""
        rule = self.rule()
        names = set(re.findall(r"\b(?:importledger_[a-z0-9_]+|up)\b", rule["expr"]))
        minutes = MINUTES.get(rule["for"], 480)
        series = []
        for name, value in self.now.items():
            if name.partition("{")[0] not in names:
                continue
            is_counter = name.partition("{")[0].endswith(_COUNTERS)
            first = self.before.get(name, 0.0 if is_counter else value)
            grows = self.gauges_grow or is_counter
            values = f"{first:.6f}+{value - first:.6f}x{minutes}" if grows else f"{value:.6f}x{minutes}"
            series.append({"series": name, "values": values})
        expression = f'count(ALERTS{{alertname="{self.alert}",alertstate="firing"}}) or vector(0)'
        expected = {"expr": expression, "eval_time": f"{minutes}m", "exp_samples": [{"labels": "{}", "value": 0}]}
        return {"interval": "1m", "input_series": series, "promql_expr_test": [expected]}


def fired(folder: Path, *cases: Case) -> list[bool]:
    """Return for each case whether its alert fires."""
    names = [f"test{number}.yml" for number in range(len(cases))]
    for name, case in zip(names, cases, strict=True):
        rules = {"groups": [{"name": "one", "rules": [case.rule()]}]}
        tests = {"rule_files": [f"rules-{name}"], "evaluation_interval": "1m", "tests": [case.test()]}
        (folder / f"rules-{name}").write_text(json.dumps(rules))  # JSON is YAML, too
        (folder / name).write_text(json.dumps(tests))
    assert PROMTOOL is not None
    command = [PROMTOOL, "test", "rules", *names]
    ended = subprocess.run(command, cwd=folder, stdout=PIPE, stderr=STDOUT, text=True, check=False)
    answers = ended.stdout.split("Unit Testing:")[1:]
    assert len(answers) == len(cases)
    assert all("SUCCESS" in answer or "got:" in answer for answer in answers), answers
    return ["got:" in answer for answer in answers]
