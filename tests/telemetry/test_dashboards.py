"""Load each dashboard into Grafana's own types, and write it again with nothing lost.

The types are generated from Grafana's sources. Unknown names are dropped, so that a mistyped name is a loss here.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import prometheus, stat, timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

BOARDS = sorted((Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards").glob("*.json"))
OPTIONS = {"timeseries": timeseries.Options, "stat": stat.Options}

register_default_plugins()


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
def test_grafanas_types_load_a_dashboard_and_lose_nothing(file: Path) -> None:
    board = json.loads(file.read_text())
    assert list(lost(board, written(board))) == []
    panels = Dashboard.from_json(board).panels
    assert panels
    for panel in panels:
        assert isinstance(panel, Panel)
        assert isinstance(panel.options, OPTIONS[panel.type_val])
        assert panel.targets
        assert all(isinstance(target, prometheus.Dataquery) and target.expr for target in panel.targets)
