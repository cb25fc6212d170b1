"""Evaluate alerts on metrics of services with promtool, as Prometheus would."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def fires(
    alert: str,
    folder: Path,
    before: Series,
    now: Series,
    *,
    limit: tuple[str, float] | None = None,
    gauges_grow: bool = False,
) -> bool:
    """Return True if the alert fires while counters grow by the same amount every minute and gauges stay.

    `limit` replaces a number of the expression that no test can reach by a smaller one.
    """
    rule = dict(RULES[alert])
    if limit is not None:
        assert rule["expr"].count(limit[0]) == 1, rule["expr"]
        rule["expr"] = rule["expr"].replace(limit[0], f"{limit[1]:.9f}")
    names = set(re.findall(r"\b(?:importledger_[a-z0-9_]+|up)\b", rule["expr"]))
    minutes = MINUTES.get(rule["for"], 480)
    series = []
    for name, value in now.items():
        if name.partition("{")[0] not in names:
            continue
        first = before.get(name, 0.0 if name.partition("{")[0].endswith(_COUNTERS) else value)
        grows = gauges_grow or name.partition("{")[0].endswith(_COUNTERS)
        values = f"{first:.6f}+{value - first:.6f}x{minutes}" if grows else f"{value:.6f}x{minutes}"
        series.append({"series": name, "values": values})
    test = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                "eval_time": f"{minutes}m",
                "exp_samples": [{"labels": "{}", "value": 0}],
            }
        ],
    }
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [rule]}]}))
    (folder / "test.yml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]})
    )
    assert PROMTOOL is not None
    ended = subprocess.run(
        [PROMTOOL, "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    text = ended.stdout + ended.stderr
    assert ended.returncode == 0 or "got:" in text, text
    return ended.returncode != 0
