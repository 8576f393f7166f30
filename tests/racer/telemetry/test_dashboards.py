"""The dashboards in docs/ ask for what racer really emits, under the names that their backends give it."""

from __future__ import annotations

import contextlib
import json
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram, InMemoryMetricReader, Sum

import racer
from racer.errors import DialError
from racer.testing import ScriptedTransport, fails, run_virtual
from tests.racer.telemetry.test_export import Tunnel
from transports.soar._server_traces import ServerTraces
from transports.soar._tunnels import Outcome
from transports.soar.core.server.status import ServerCounts

DASHBOARDS = Path(__file__).parents[3] / "docs" / "dashboards"
SUFFIXES = {"s": "_seconds", "By": "_bytes"}
EVERYWHERE = {"service.name", "le"}


@cache
def emitted() -> dict[str, tuple[str, str, set[str]]]:
    """Return each metric's kind, unit and the keys of its attributes, from a race and a Soar server that happened."""
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)

    async def story() -> None:
        lost = ScriptedTransport("direct", fails(0.5, ConnectionRefusedError()))
        races: tuple[list[Any], ...] = ([lost, racer.Entrant(Tunnel(), start_delay=0.2)], [lost])
        for guests in races:
            async with racer.Dialer(guests, meter_provider=meters) as dialer:
                with contextlib.suppress(DialError):
                    await (await dialer.dial("news.example", 80)).aclose()

    run_virtual(story)
    counts = ServerCounts(
        sessions=1,
        octets=1,
        questions={"data": 1},
        answers={"data": 1},
        handshakes={"welcomed": 1},
        ends={"closed": 1},
    )
    server = ServerTraces(
        tracer=None, meter=meters.get_meter("soar"), shows_targets=False, count=lambda: counts
    )
    refusal = SimpleNamespace(name="NOT_ALLOWED")
    tunnel: Any = SimpleNamespace(
        outcome=Outcome.REFUSED, refusal=refusal, to_target=1, from_target=1
    )
    server.stream_ended(tunnel)

    found: dict[str, tuple[str, str, set[str]]] = {}
    data = reader.get_metrics_data()
    assert data is not None
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                match metric.data:
                    case Histogram():
                        kind = "histogram"
                    case Sum(is_monotonic=True):
                        kind = "counter"
                    case _:
                        kind = "gauge"
                keys = {key for p in metric.data.data_points for key in p.attributes or {}}
                found[metric.name] = (kind, metric.unit or "", keys)
    return found


def in_prometheus() -> dict[str, set[str]]:
    """Return labels by name, as OpenTelemetry's "Prometheus and OpenMetrics Compatibility" has both."""
    names: dict[str, set[str]] = {}
    for metric, (kind, unit, keys) in emitted().items():
        name = metric.replace(".", "_") + SUFFIXES.get(unit, "")
        labels = {key.replace(".", "_") for key in keys | EVERYWHERE}
        match kind:
            case "histogram":
                names |= {f"{name}{part}": labels for part in ("_bucket", "_count", "_sum")}
            case "counter":
                names[f"{name}_total"] = labels
            case _:
                names[name] = labels
    return names


def load(name: str) -> Any:
    return json.loads((DASHBOARDS / name).read_text(encoding="utf-8"))


def grafana_queries() -> list[tuple[str, str]]:
    board = load("grafana.json")
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    return [(p["title"], target["expr"]) for p in panels for target in p["targets"]]


def signoz_queries() -> list[tuple[str, dict[str, Any]]]:
    widgets = [one for one in load("signoz.json")["widgets"] if one["panelTypes"] != "row"]
    return [
        (one["title"], query) for one in widgets for query in one["query"]["builder"]["queryData"]
    ]


def asked(expression: str) -> tuple[set[str], set[str]]:
    """Return the metrics and the labels that an expression of PromQL names."""
    metrics = set(re.findall(r"(\w+)\{", expression))
    inside = ",".join(re.findall(r"\{([^}]*)\}", expression))
    labels = set(re.findall(r"(\w+)=~?\"", inside))
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        labels |= set(grouped.split(", "))
    return metrics, labels


def test_grafana_asks_for_what_there_is() -> None:
    known = in_prometheus()
    for title, expression in grafana_queries():
        metrics, labels = asked(expression)
        assert len(metrics) == 1, title
        (metric,) = metrics
        assert metric in known, title
        assert labels <= known[metric], title
        is_counted = metric.endswith(("_total", "_count", "_bucket"))
        assert ("rate(" in expression) == is_counted, title


def test_signoz_asks_for_what_there_is() -> None:
    known = emitted()
    for title, query in signoz_queries():
        key = query["aggregateAttribute"]["key"]
        name, part = next(
            (key.removesuffix(end), end) for end in (".bucket", ".count", "") if key.endswith(end)
        )
        kind, _, keys = known[name]
        assert (part != "") == (kind == "histogram"), title
        grouped = {one["key"] for one in query["groupBy"]}
        filtered = {one["key"]["key"] for one in query["filters"]["items"]}
        assert grouped | filtered <= keys | EVERYWHERE, title
        how = {
            ".bucket": {("count", "", "p50"), ("count", "", "p95")},
            ".count": {("rate", "rate", "sum")},
            "": {("rate", "rate", "sum")} if kind == "counter" else {("latest", "latest", "sum")},
        }
        way = tuple(
            query[part] for part in ("aggregateOperator", "timeAggregation", "spaceAggregation")
        )
        assert way in how[part], title
        attribute = query["aggregateAttribute"]
        assert attribute["id"] == f"{key}--float64--{attribute['type']}--true", title


def test_both_show_every_metric() -> None:
    shown = {query["aggregateAttribute"]["key"] for _, query in signoz_queries()}
    names = {key.removesuffix(".bucket").removesuffix(".count") for key in shown}
    assert names == set(emitted())
    in_grafana = set().union(*(asked(expression)[0] for _, expression in grafana_queries()))
    ends = ("_bucket", "_count", "_sum")
    stems = {re.sub("|".join(f"{end}$" for end in ends), "", name) for name in in_prometheus()}
    assert {re.sub("|".join(f"{end}$" for end in ends), "", name) for name in in_grafana} == stems


def overlapping(places: list[tuple[int, int, int, int]]) -> list[tuple[Any, Any]]:
    return [
        (one, other)
        for number, one in enumerate(places)
        for other in places[:number]
        if one[0] < other[0] + other[2]
        and other[0] < one[0] + one[2]
        and one[1] < other[1] + other[3]
        and other[1] < one[1] + one[3]
    ]


def test_grafana_can_read_its_dashboard() -> None:
    board = load("grafana.json")
    assert board["schemaVersion"] >= 36
    assert board["title"] == "racer"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    places = [panel["gridPos"] for panel in board["panels"]]
    assert overlapping([(p["x"], p["y"], p["w"], p["h"]) for p in places]) == []
    assert all(place["x"] + place["w"] <= 24 for place in places)
    variables = {one["name"] for one in board["templating"]["list"]}
    text = json.dumps(board["panels"])
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval"}
    assert used == variables
    for panel in board["panels"]:
        references = [target["refId"] for target in panel.get("targets", ())]
        assert len(references) == len(set(references))
        for target in panel.get("targets", ()):
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert labels <= asked(target["expr"])[1]


def test_signoz_can_read_its_dashboard() -> None:
    board = load("signoz.json")
    assert board["version"] == "v4"
    ids = [widget["id"] for widget in board["widgets"]]
    assert len(ids) == len(set(ids))
    assert [place["i"] for place in board["layout"]] == ids
    assert overlapping([(p["x"], p["y"], p["w"], p["h"]) for p in board["layout"]]) == []
    assert all(place["x"] + place["w"] <= 12 for place in board["layout"])
    for widget in board["widgets"]:
        if widget["panelTypes"] == "row":
            continue
        query = widget["query"]
        assert query["queryType"] == "builder"
        assert {"builder", "promql", "clickhouse_sql", "id"} <= set(query)
        for one in query["builder"]["queryData"]:
            labels = set(re.findall(r"{{([\w.]+)}}", one["legend"]))
            assert labels <= {group["key"] for group in one["groupBy"]}


@pytest.mark.parametrize(
    ("expression", "metrics", "labels"),
    [
        ('sum(rate(a_total{x=~"1"}[5m]))', {"a_total"}, {"x"}),
        ('sum by (le, y) (rate(b_bucket{x="1",z=~"2"}[5m]))', {"b_bucket"}, {"le", "x", "y", "z"}),
    ],
)
def test_an_expression_is_read(expression: str, metrics: set[str], labels: set[str]) -> None:
    assert asked(expression) == (metrics, labels)
