from __future__ import annotations

import pytest

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode, generate
from skipmap.drafts.registry import draft_names
from skipmap.skipset import SkipSet
from skipmap.target.loading import end_tokens, load_model, load_tokenizer, resolve_target
from skipmap.target.model import TargetModel
from skipmap.target.packed import pack_linears
from tests.ready_drafts import LOSSY, UNTAUGHT, ready_draft

LIMIT = 10
SMALL = {
    "clasp": {"skip_layers": 2, "num_tokens": 2},
    "draft_model": {"num_tokens": 2},
    "early_exit": {"exits": "26,28", "threshold": 0.1, "num_tokens": 2},
    "knn_ssd": {"num_tokens": 2},
    "layerskip": {"exit_layer": 28, "num_tokens": 2},
    "lookahead": {"level": 3, "window": 4, "guesses": 3},
    "pia": {"decoding_length": 12},
    "samd": {"max_nodes": 12, "max_positions": 8},
    "self_skip": {"skip": "14", "num_tokens": 2},
    "specinfer": {"widths": "2,1"},
    "staged": {"num_tokens": 3},
    "swift": {"skip_ratio": 0.05, "window": 2, "num_tokens": 2},
    "token_recycling": {"max_nodes": 12},
}
"""Trees that one thread verifies in little time; the others draft short chains anyway."""


@pytest.mark.model
def test_real_model_writes_the_same_whatever_is_drafted(
    smollm2_dir, user_settings, copy_model, without_blocks, hugging_face_greedy, make_rule
):
    resolved = resolve_target("smollm2-135m-instruct", settings=user_settings)
    model = load_model(resolved, dtype="float32", device="cpu")
    tokenizer = load_tokenizer(resolved)
    texts = ["Once upon a time there was a fox. The fox said:", "one two three one two three one two"]
    prompts = [tokenizer(text).input_ids for text in texts]
    skips = [SkipSet.of(s) for s in ([0], [0, 14, 21], [9, 17])]
    expected = [
        [tuple(hugging_face_greedy(without_blocks(model, skip), prompt, LIMIT)) for prompt in prompts]
        for skip in skips
    ]
    target = TargetModel(copy_model(model))
    # As targets are loaded to be used.
    pack_linears(target.model)
    rule, options = make_rule(LIMIT, end=end_tokens(model, tokenizer)), DecodeOptions(LIMIT)
    # No smaller model has this vocabulary: the sparse target is drafted for by the model itself.
    beside = {"draft_model": "model", "specinfer": "models", "staged": "model"}
    for place, name in enumerate(sorted({*draft_names()} - LOSSY)):
        itself = {beside[name]: str(smollm2_dir)} if name in beside else {}
        draft = ready_draft(name, target, SMALL.get(name, {}) | itself, tokenizer)
        answers = decode(target, skips, prompts, draft, rule, options)
        assert [[answer.token_ids for answer in row] for row in answers] == expected
        assert sum(sum(answer.counts.accepted) for row in answers for answer in row) > 0 or name in UNTAUGHT
        c, p = divmod(place % 6, 2)
        assert answers[c][p] == generate(target, prompts[p], skips[c], draft, rule, options)
