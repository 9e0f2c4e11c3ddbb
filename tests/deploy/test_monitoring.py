"""The rules, the board and the scaler ask for metrics and labels that the API has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
METRICS = {
    "skipmap_jobs": {"state"},
    "skipmap_chunks": {"state"},
    "skipmap_oldest_pending_seconds": set(),
    "skipmap_workers": {"device_class"},
    "skipmap_reconciler_age_seconds": set(),
    "skipmap_dead_letters": set(),
    "skipmap_nodes": {"map", "channel", "condition"},
    "skipmap_http_requests_total": {"method", "route", "status"},
    "skipmap_http_request_seconds_bucket": {"method", "route", "le"},
}
STATES = {
    "skipmap_jobs": {"running", "pausing", "paused", "cancelling", "cancelled", "succeeded", "failed"},
    "skipmap_chunks": {"pending", "running", "succeeded", "failed", "cancelled", "superseded"},
}

RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "monitoring/rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
BOARD = json.loads((DEPLOY / "monitoring/grafana/skipmap.json").read_text())
SCALER = yaml.safe_load((DEPLOY / "kubernetes/components/keda/scaled-object.yaml").read_text())
QUERIES = {
    **{rule["alert"]: rule["expr"] for rule in RULES},
    **{
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in BOARD["panels"]
        for target in panel["targets"]
    },
    **{f"scaler {n}": each["metadata"]["query"] for n, each in enumerate(SCALER["spec"]["triggers"])},
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_metrics_and_labels_exist(query: str):
    used = re.findall(r"(skipmap_\w+)(?:\{([^}]*)\})?", query)
    assert used
    labels: set[str] = set()
    for metric, matchers in used:
        assert metric in METRICS
        labels |= METRICS[metric]
        for label, values in re.findall(r'(\w+)[=!~]+"([^"]*)"', matchers):
            assert label in METRICS[metric]
            assert label != "state" or set(values.split("|")) <= STATES[metric]
    for names in re.findall(r"\bby \(([^)]*)\)", query):
        assert {name.strip() for name in names.split(",")} <= labels


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_figures_that_all_replicas_give_are_not_added_up(query: str):
    plain = re.sub(r"(max( by \([^)]*\))?|absent) ?\(skipmap_\w+(\{[^}]*\})?( offset \w+)?\)", "", query)
    assert all(metric.startswith("skipmap_http_") for metric in re.findall(r"skipmap_\w+", plain))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts_say_how_bad_it_is_and_what_to_do(rule: dict[str, Any]):
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith(".")


def test_panels_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_prometheus_reads_the_rules_and_finds_the_api():
    content = yaml.safe_load((DEPLOY / "monitoring/prometheus.yaml").read_text())
    assert all((DEPLOY / "monitoring" / name).is_file() for name in content["rule_files"])
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    (found,) = content["scrape_configs"][0]["dns_sd_configs"]
    assert set(found["names"]) <= set(services)
    assert services["api"]["ports"][0].endswith(f":{found['port']}")
