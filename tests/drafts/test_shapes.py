from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.drafts.shapes import Shape, shape, shape_names
from skipmap.errors import NotFound
from skipmap.tree import ROOT, TokenTree

#             0        1     2
#           0   1      0
#           0
SMALL = Shape((ROOT, ROOT, ROOT, 0, 0, 1, 3), (0, 1, 2, 0, 1, 0, 0))


def paths(shape: Shape) -> list[tuple[int, ...]]:
    """The ranks from the root down to each node."""
    found: list[tuple[int, ...]] = []
    for parent, rank in zip(shape.parents, shape.ranks, strict=True):
        found.append((*(() if parent == ROOT else found[parent]), rank))
    return found


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("recycling_81", [8, 21, 25, 15, 8, 3]),
        ("samd_61", [7, 20, 21, 8, 4]),
        ("eagle_26", [4, 8, 8, 3, 2]),
        ("medusa_64", [10, 28, 23, 2]),
    ],
)
def test_named_shapes_have_the_published_level_sizes(name, levels):
    depths = Counter(len(path) for path in paths(shape(name)))
    assert [depths[depth] for depth in sorted(depths)] == levels
    assert len(shape(name)) + 1 == int(name.split("_")[1])


def test_a_chain_is_the_likeliest_path():
    assert paths(shape("chain")) == [(0,) * depth for depth in range(1, 17)]


def test_named_shapes_have_the_published_paths():
    deepest = [path for path in paths(shape("recycling_81")) if len(path) == 6]
    assert deepest == [(0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1), (0, 0, 0, 1, 0, 0)]
    deepest = [path for path in paths(shape("samd_61")) if len(path) == 5]
    assert deepest == [(0, 0, 0, 0, 0), (0, 0, 0, 0, 1), (0, 0, 1, 0, 0), (1, 0, 0, 0, 0)]


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("recycling_81", "token_recycling_80"),
        ("samd_61", "token_recycling_60"),
        ("eagle_26", "eagle1_mc_sim_7b_63"),
        ("medusa_64", "medusa_mc_sim_7b_63"),
        ("medusa_7b_stage1", "medusa_vicuna_7b_stage1"),
        ("medusa_7b_stage2", "medusa_vicuna_7b_stage2"),
        ("medusa_13b_stage1", "medusa_vicuna_13b_stage1"),
        ("medusa_13b_stage2", "medusa_vicuna_13b_stage2"),
    ],
)
def test_named_shapes_equal_the_collected_ones(name, published, extra_data):
    file = extra_data / "draft_trees.json"
    if not file.is_file():
        pytest.skip("no collected trees")
    found = json.loads(file.read_text())
    entry = next(value for key, value in found.items() if key.startswith(published))
    # There the root is node 0.
    assert list(shape(name).parents) == [parent - 1 for parent in entry["parents"][1:]]
    assert list(shape(name).ranks) == entry["ranks"][1:]


def test_names_are_known_and_others_refused():
    assert {"recycling_81", "samd_61"} <= set(shape_names())
    with pytest.raises(NotFound, match=r"'oak' is unknown; known: .*recycling_81, samd_61"):
        shape("oak")


@pytest.mark.parametrize(
    ("limits", "parents", "ranks"),
    [
        ((1,), (), ()),
        ((4,), (ROOT, ROOT, 0), (0, 1, 0)),
        ((5,), (ROOT, ROOT, ROOT, 0), (0, 1, 2, 0)),
        ((6,), (ROOT, ROOT, ROOT, 0, 0), (0, 1, 2, 0, 1)),
        ((8,), SMALL.parents, SMALL.ranks),
        ((99, 1), (ROOT, ROOT, ROOT), (0, 1, 2)),
        ((3, 1), (ROOT, ROOT), (0, 1)),
        ((99, None, 0), (ROOT, 0, 1), (0, 0, 0)),
        ((99, 2, 1), (ROOT, ROOT, 0, 0, 1), (0, 1, 0, 1, 0)),
    ],
    ids=[
        "root alone",
        "likeliest paths",
        "earlier node on ties",
        "next node on ties",
        "all",
        "depth",
        "depth and size",
        "best candidates only, and nothing below others",
        "depth and rank",
    ],
)
def test_cut_by_hand(limits, parents, ranks):
    assert SMALL.cut(*limits) == Shape(parents, ranks)


def test_cut_of_81_to_24_keeps_the_likeliest_paths():
    kept = paths(shape("recycling_81").cut(24))
    assert len(kept) == 23
    # 1 + 2 + 4 + 8 paths have a sum of rank + 1 up to 4; the other 8 have 5.
    sums = [sum(rank + 1 for rank in path) for path in kept]
    assert Counter(sums) == {1: 1, 2: 2, 3: 4, 4: 8, 5: 8}
    assert [path for path, total in zip(kept, sums, strict=True) if total == 5][:3] == [(4,), (0, 3), (1, 2)]


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    parents: list[int] = []
    ranks: list[int] = []
    for node in range(draw(st.integers(0, 15))):
        parent = draw(st.integers(ROOT, node - 1))
        ranks.append(parents.count(parent))
        parents.append(parent)
    return Shape(tuple(parents), tuple(ranks))


@given(shapes(), st.integers(1, 17), st.none() | st.integers(1, 4), st.none() | st.integers(0, 3))
def test_cut_takes_the_smallest_sums_of_what_is_allowed(whole, size, depth, rank):
    cut = whole.cut(size, depth, rank)
    TokenTree(tuple(range(len(cut))), cut.parents)
    allowed = [
        path
        for path in paths(whole)
        if (depth is None or len(path) <= depth) and (rank is None or max(path) <= rank)
    ]
    assert len(cut) == min(size - 1, len(allowed))
    sums = [(sum(path) + len(path), place) for place, path in enumerate(allowed)]
    kept = sorted(place for _, place in sorted(sums)[: len(cut)])
    assert paths(cut) == [allowed[place] for place in kept]


@pytest.mark.parametrize(
    ("parents", "ranks"),
    [((0,), (0,)), ((1, ROOT), (0, 0)), ((ROOT, ROOT), (0, 2)), ((ROOT, ROOT), (0, 0)), ((ROOT,), (1,))],
)
def test_shape_that_is_no_tree_of_ranks_is_refused(parents, ranks):
    with pytest.raises(ValueError, match="node"):
        Shape(parents, ranks)
