from __future__ import annotations

import json

from tests.web.templates.markup import ATTACK, attack_free, call, soup, text


def test_data_cannot_leave_its_script():
    found = call("chart('pareto', x, data={'label': x}, table='t', name='front')", "charts", x=ATTACK)
    (script,) = found.find_all("script")
    assert script["type"] == "application/json"
    assert json.loads(script.string) == {"label": ATTACK}
    script.extract()
    attack_free(soup(str(found)))
    assert text(found.select_one(".chart-label")) == " ".join(ATTACK.split())


def test_a_chart_names_its_picture_and_leads_to_its_table():
    found = call("chart('cost', 'Cost', src='/data', table='t', name='cost')", "charts")
    figure = found.figure
    assert (figure["data-chart"], figure["data-chart-src"], figure["id"]) == ("cost", "/data", "chart-cost")
    plot = found.select_one("[data-chart-plot]")
    assert text(found.find(id=plot["aria-labelledby"])) == "Cost"
    assert found.select_one('a[href="#t"]') is not None
    assert found.script is None
    assert [item["data-export"] for item in found.find_all("button")] == ["csv", "json", "png", "svg"]


def test_an_empty_chart_still_has_its_data():
    found = call("chart('bars', 'Bars', data={}, name='b')", "charts")
    assert json.loads(found.script.string) == {}
