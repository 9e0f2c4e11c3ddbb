from __future__ import annotations

from itertools import pairwise

import pytest

from tests.web.templates.markup import ATTACK, attack_free, call, text


def cells(found):
    return found.select(".cells:not(.cells-key) i")


@pytest.mark.parametrize("layers", [1, 6, 10, 18, 30, 40, 41, 80, 128])
def test_every_layer_has_a_cell_in_a_group_of_ten(layers):
    found = call("ruler(n, [('qa', [], none)])", "layers", n=layers)
    assert len(cells(found)) == layers
    sizes = [len(group.find_all("i")) for group in found.select(".cells-group")]
    assert sizes[:-1] == [10] * ((layers - 1) // 10)
    assert [cell["title"].split(":")[0] for cell in cells(found)] == [f"Layer {n}" for n in range(layers)]


def test_skipped_layers_are_marked_and_said_in_words():
    found = call("ruler(30, [('qa', [3, 7], '/qa'), ('mmlu', [], none)])", "layers")
    first, second = found.select(".ruler-row")
    assert [cell.get_text() for cell in first.select("i.skipped")] == ["3", "7"]
    assert text(first.select_one(".ruler-text")) == "skips 3, 7 (2 of 30)"
    assert first.a["href"] == "/qa"
    assert not second.select("i.skipped")
    assert text(second.select_one(".ruler-text")) == "dense (all 30 run)"


def test_the_picture_is_hidden_from_screen_readers():
    found = call("ruler(30, [('qa', [3], none)])", "layers")
    assert all(part["aria-hidden"] == "true" for part in found.select(".cells"))


def test_labels_show_as_they_are():
    found = call("ruler(6, [(x, [1], x)])", "layers", x=ATTACK)
    attack_free(found)
    assert text(found.select_one(".ruler-label")) == " ".join(ATTACK.split())


@pytest.mark.parametrize("layers", [6, 30, 40])
def test_wide_cells_are_numbered_in_steps_of_five_and_where_skipped(layers):
    found = call("ruler(n, [('qa', [3, 4], none)])", "layers", n=layers)
    numbered = [int(cell.get_text()) for cell in cells(found) if cell.get_text()]
    assert numbered == sorted({*range(0, layers, 5), 3, 4})


@pytest.mark.parametrize(
    "skipped", [[0, 1, 2, 3, 4], [49, 50], [98, 99, 100, 101], [99, 109, 110, 127], [*range(128)]]
)
def test_numbers_of_small_cells_never_touch(skipped):
    found = call("ruler(128, [('qa', skipped, none)])", "layers", skipped=skipped)
    assert found.select_one(".cells-small") is not None
    numbered = [int(cell.get_text()) for cell in cells(found) if cell.get_text()]
    assert set(range(0, 128, 10)) <= set(numbered)
    # Pixels between the middles of two cells: 14 a cell, 6 more where a group begins. A digit takes 7 at most.
    for one, other in pairwise(numbered):
        apart = 14 * (other - one) + 6 * (other // 10 - one // 10)
        assert apart >= 7 * (len(str(one)) + len(str(other))) / 2, (one, other)


def test_a_change_tells_three_kinds_apart():
    found = call("diff_ruler(30, [3, 7], [3, 8])", "layers")
    marks = {cell.get_text(): cell["class"] for cell in cells(found) if cell.has_attr("class")}
    assert marks == {"3": ["skipped"], "8": ["added"], "7": ["dropped"]}
    assert [text(entry) for entry in found.select(".ruler-legend li")] == [
        "skipped before and after: 3",
        "newly skipped: 8",
        "no longer skipped: 7",
        "runs before and after",
    ]


def test_no_change_says_none():
    told = text(call("diff_ruler(6, [], [])", "layers"))
    assert "newly skipped: none" in told
    assert "no longer skipped: none" in told
