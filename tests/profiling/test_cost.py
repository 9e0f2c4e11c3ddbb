from __future__ import annotations

import itertools
import json
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.profiling.cost import ROUNDS, WARM_UP_ROUNDS, CostModel, fit, measure, measured_ratios, probes
from skipmap.skipset import SkipSet

FULL, SLIDING = "full_attention", "sliding_attention"
# As in a hybrid model: five sliding blocks before each full one.
TYPES = tuple(FULL if i % 6 == 5 else SLIDING for i in range(18))


def seconds_of(skip, types, fixed, per_type):
    return fixed + sum(per_type[kind] for block, kind in enumerate(types) if block not in skip)


def model_of(types, fixed, per_type):
    return CostModel(fixed, per_type, types, 0.0, 11, 100, "cpu", {})


def test_fit_recovers_fixed_and_per_type_seconds():
    per_type = {FULL: 0.005, SLIDING: 0.003}
    seconds = {skip: seconds_of(skip, TYPES, 0.02, per_type) for skip in probes(TYPES)}
    fixed, found = fit(TYPES, seconds)
    assert fixed == pytest.approx(0.02)
    assert found == pytest.approx(per_type)


def test_fit_takes_the_middle_of_noise():
    skips = probes((FULL,) * 12)
    seconds = {skip: 0.01 + 0.002 * (12 - len(skip)) + (-1) ** i * 1e-5 for i, skip in enumerate(skips)}
    fixed, per_type = fit((FULL,) * 12, seconds)
    assert fixed == pytest.approx(0.01, abs=1e-4)
    assert per_type[FULL] == pytest.approx(0.002, abs=1e-5)


def test_negative_terms_become_zero_and_the_rest_is_fitted_again():
    # Fewer blocks that take longer: the slope is noise.
    rising = {SkipSet(): 1.0, SkipSet((0,)): 1.1, SkipSet((0, 2)): 1.2}
    assert fit((FULL,) * 4, rising) == (pytest.approx(1.1), {FULL: 0.0})
    # Through the origin and below: the fixed term would be negative.
    steep = {SkipSet(): 3.9, SkipSet((0,)): 2.7, SkipSet((0, 2)): 1.6}
    fixed, per_type = fit((FULL,) * 4, steep)
    assert fixed == 0.0
    assert per_type[FULL] == pytest.approx((4 * 3.9 + 3 * 2.7 + 2 * 1.6) / (16 + 9 + 4))


def test_types_that_timing_cannot_tell_apart_share_a_value():
    seconds = {skip: 0.01 + 0.002 * (18 - len(skip)) for skip in probes(TYPES)}
    # A hiccup: leaving out a full block seems to take longer.
    seconds[next(s for s in seconds if s and TYPES[s.blocks[0]] == FULL)] += 0.01
    fixed, per_type = fit(TYPES, seconds)
    assert per_type[FULL] == per_type[SLIDING] > 0
    assert fixed > 0


@settings(deadline=None)
@given(
    st.lists(st.floats(1e-5, 1.0), min_size=8, max_size=8),
    st.sampled_from([TYPES, TYPES[:7], (FULL, SLIDING)]),
)
def test_a_step_never_costs_nothing(noise, types):
    skips = probes(types)
    model = model_of(types, *fit(types, dict(zip(skips, noise, strict=False))))
    assert min(model.fixed, *model.per_type.values()) >= 0
    for kept in range(len(types)):
        assert model.ratio(SkipSet.of(b for b in range(len(types)) if b != kept)) > 0
    assert model.ratio(SkipSet.of(b for b, kind in enumerate(types) if kind == FULL)) > 0


def test_equal_counts_by_type_cost_exactly_the_same():
    model = model_of(TYPES, 0.0213, {FULL: 0.1 / 3, SLIDING: 0.7 / 9})
    sliding = [b for b, kind in enumerate(TYPES) if kind == SLIDING]
    ratios = {model.ratio(SkipSet(pair)) for pair in itertools.combinations(sliding, 2)}
    assert len(ratios) == 1
    assert model.ratio(SkipSet((0, 5))) == model.ratio(SkipSet((16, 17)))
    assert model.ratio(SkipSet((0,))) != model.ratio(SkipSet((5,)))
    assert model.ratio(SkipSet()) == 1.0


def test_probes_cover_each_type_by_a_quarter_and_a_half():
    found = probes(TYPES)
    assert found == sorted(found)
    assert SkipSet() in found
    counts = {tuple(sum(TYPES[b] == kind for b in skip) for kind in (FULL, SLIDING)) for skip in found}
    assert counts == {(0, 0), (1, 0), (0, 3), (0, 7)}


@pytest.mark.parametrize("types", [(FULL,), (FULL, SLIDING), (FULL, FULL), (SLIDING, FULL, FULL)])
def test_probes_leave_a_block_to_run(types):
    assert all(len(skip) < len(types) for skip in probes(types))


def test_plain_form_comes_back():
    model = model_of(TYPES, 0.02, {FULL: 0.005, SLIDING: 0.003})
    assert CostModel.from_json(json.loads(json.dumps(model.to_json())), TYPES) == model


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_measure_with_a_made_up_clock(random_target, kind):
    """The clock advances by what the blocks that ran "cost", so the fit must find those values again."""
    target = random_target(kind)
    per_type = {t: 0.001 * (i + 1) for i, t in enumerate(sorted(set(target.block_types)))}
    now, ran = [0.0], []

    def clock():
        blocks = target.block_calls
        now[0] += sum(n * per_type[t] for n, t in zip(blocks, target.block_types, strict=True))
        now[0] += 0.004 if any(blocks) else 0.0
        if any(blocks):
            ran.append(sum(blocks))
        target.reset_counts()
        return now[0]

    model = measure(target, 4, [3, 4, 5, 6, 7], clock)
    assert model.fixed == pytest.approx(0.004)
    assert model.per_type == pytest.approx(per_type)
    assert (model.tree_size, model.context_length, model.spread) == (4, 5, pytest.approx(0.0, abs=1e-9))
    # All configurations in turn, round after round.
    timed = len(model.measured)
    assert len(ran) == 1 + timed * (WARM_UP_ROUNDS + ROUNDS)
    assert ran[1 : 1 + timed] == ran[1 + timed : 1 + 2 * timed]
    # What the fit says of a set that it never saw is what measuring it says.
    extra = SkipSet((1, 2, 4))
    ratios = measured_ratios(target, 4, [3, 4, 5, 6, 7], [extra], clock)
    assert ratios[extra] == pytest.approx(model.ratio(extra))


def test_measure_takes_medians_past_the_warm_up(random_target):
    target = random_target("llama")
    readings = itertools.count()
    configurations = len(probes(target.block_types))

    def clock():
        # Two readings a step; round r takes r seconds for every configuration.
        reading = next(readings)
        return float(reading // 2 // configurations) if reading % 2 else 0.0

    model = measure(target, 2, [3, 4, 5], clock=clock)
    rounds = range(WARM_UP_ROUNDS, WARM_UP_ROUNDS + ROUNDS)
    low, middle, high = statistics.quantiles(rounds, n=4)
    assert set(model.measured.values()) == {middle}
    assert model.spread == pytest.approx((high - low) / middle)
