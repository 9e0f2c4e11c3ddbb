from __future__ import annotations

import csv
import io

import pytest

from api.csv import csv_text


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_spreadsheet_runs_no_text(text):
    ((cell, number),) = csv.reader(io.StringIO(csv_text([[text, -1.5]]), newline=""))
    assert (cell, number) == ("'" + text, "-1.5")


def test_values_are_written_as_json_has_them_and_nothing_as_nothing():
    assert csv_text([[True, False, None, 'a "b", c']]) == 'true,false,,"a ""b"", c"\r\n'
