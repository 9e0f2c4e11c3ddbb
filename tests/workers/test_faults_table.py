"""The table of faults and the tests that carry their numbers agree."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.workers.cluster import ROOT

ROW = re.compile(r"^\| (\d+) \|.*\| (.+?) \|$", re.MULTILINE)


def marked() -> Iterator[tuple[int, str]]:
    """Numbers of faults in the tests, with the file of each."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.fault":
                        yield ast.literal_eval(decorator.args[0]), str(path.relative_to(ROOT))


def test_every_fault_is_tested_where_the_table_says_so():
    rows = ROW.findall((ROOT / "docs" / "faults.md").read_text(encoding="utf-8"))
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    told = {int(number): set(re.findall(r"`(.+?)`", where)) for number, where in rows}
    assert all(told[int(number)] or where.startswith("not tested") for number, where in rows)
    found = defaultdict(set)
    for number, path in marked():
        found[number].add(path)
    assert {number: files for number, files in told.items() if files} == found
