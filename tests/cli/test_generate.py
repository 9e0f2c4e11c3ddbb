from __future__ import annotations

import io
import json
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM

PUBLISHED_KEYS = {
    "token_ids",
    "text",
    "skip",
    "draft",
    "verification_steps",
    "accepted_per_step",
    "blocks_run_per_step",
    "prefill_seconds",
    "decode_seconds",
}
PROMPT = "w1 w2 w3 w1 w2 w3 w1 w2"


@pytest.fixture(scope="session")
def greedy(tokenizer, without_blocks):
    """Tokens of Hugging Face greedy generation by a model from which blocks were removed."""

    def run(target, skip, text, count):
        model = without_blocks(AutoModelForCausalLM.from_pretrained(target).eval(), skip)
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        answer = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count,
            do_sample=False,
            use_cache=False,
            pad_token_id=0,
        )
        return answer[0, ids.shape[1] :].tolist()

    return run


@pytest.fixture
def generate(skipmap, target):
    """Run ``generate`` on the tiny target; later options win, and a prompt among them replaces the usual one."""

    def run(*options, prompt=PROMPT):
        asked = [] if "--prompt" in options else ["--prompt", prompt]
        return skipmap("generate", "--target", target, *asked, "--max-new-tokens", 16, *options)

    return run


@pytest.mark.parametrize("skip", ["", "0", "5", "1,3", "{0,2,4}", "[3,1,3]", " 2 , 0 ", "0,1,2,3,4"])
def test_equals_greedy_generation_of_the_pruned_model(generate, greedy, target, tokenizer, skip):
    blocks = sorted({int(part) for part in skip.strip("{}[]").split(",") if part.strip()})
    expected = greedy(target, blocks, f"<s> {PROMPT} w0", 16)
    for draft in ("sam", "prompt_lookup", "none"):
        ran = generate("--skip", skip, "--draft", draft, "--json")
        answer = json.loads(ran.out)
        assert ran.code == 0
        assert answer["token_ids"] == expected
        assert answer["text"] == tokenizer.decode(expected, skip_special_tokens=True)
        assert (answer["skip"], answer["draft"], answer["finish"]) == (blocks, draft, "length")


def test_each_turn_of_a_talk_sees_the_answers_before_it(generate, greedy, target, tokenizer):
    ran = generate("--skip", "1,3", "--json", "--prompt", "w1 w2 w3", "--prompt", "w4 w5")
    answer = json.loads(ran.out)
    first, second = answer.pop("turns")
    assert answer == second
    assert first["token_ids"] == greedy(target, [1, 3], "<s> w1 w2 w3 w0", 16)
    talk = f"<s> w1 w2 w3 w0 {first['text']} w0 w4 w5 w0"
    assert second["token_ids"] == greedy(target, [1, 3], talk, 16)
    lines = generate("--skip", "1,3", "--prompt", "w1 w2 w3", "--prompt", "w4 w5").out.splitlines()
    assert lines == [first["text"], second["text"]]


def test_sampled_answers_repeat_with_their_seed_whatever_the_draft(generate):
    def tokens(*options):
        return json.loads(generate("--temperature", "1.5", "--json", *options).out)["token_ids"]

    assert tokens("--seed", 1) == tokens("--seed", 1, "--draft", "none")
    assert tokens("--seed", 1) == tokens("--seed", 1, "--draft", "token_recycling")
    assert tokens("--seed", 1) != tokens("--seed", 2)
    assert tokens("--top-k", 1) == tokens("--temperature", 0) == tokens("--top-p", 1e-9)


def test_json_has_the_published_keys_and_counts_that_add_up(generate):
    ran = generate("--skip", "4", "--json")
    answer = json.loads(ran.out)
    assert answer.keys() >= PUBLISHED_KEYS
    assert ran.out.count("\n") == 1
    assert ran.err == ""
    steps = answer["verification_steps"]
    assert steps == len(answer["accepted_per_step"]) == len(answer["blocks_run_per_step"])
    assert answer["blocks_run_per_step"] == [5] * steps
    # The prefill yields the first token.
    assert sum(answer["emitted_per_step"]) == len(answer["token_ids"]) - 1
    assert answer["prefill_seconds"] > 0
    assert answer["decode_seconds"] >= answer["draft_seconds"] + answer["verify_seconds"] > 0
    assert answer["draft_seconds"] > 0
    assert sum(answer["accepted_histogram"]) == steps
    assert sum(n * count for n, count in enumerate(answer["accepted_histogram"])) == sum(
        answer["accepted_per_step"]
    )
    assert all(0 <= share <= 1 for share in answer["position_acceptance"])
    assert len(answer["scored_per_step"]) == steps


def test_a_draft_takes_fewer_steps_than_none(generate):
    plain, sam = (json.loads(generate("--draft", d, "--json").out) for d in ("none", "sam"))
    assert plain["verification_steps"] == 15
    assert sum(plain["accepted_per_step"]) == 0
    assert sam["verification_steps"] < 15
    assert sum(sam["accepted_per_step"]) > 0


def test_stdout_holds_the_text_alone(generate):
    ran = generate("--skip", "1")
    assert ran.out == json.loads(generate("--skip", "1", "--json").out)["text"] + "\n"
    assert "16 tokens in" in ran.err
    assert "skipped {1}" in ran.err


def test_end_token_is_emitted_and_ends_the_answer(skipmap, save_target, greedy):
    text = f"<s> {PROMPT} w0"
    end = greedy(save_target(), (), text, 5)[-1]
    target = save_target(eos=end)
    expected = greedy(target, (), text, 16)
    ran = skipmap("generate", "--target", target, "--prompt", PROMPT, "--max-new-tokens", 16, "--json")
    answer = json.loads(ran.out)
    assert answer["token_ids"] == expected
    assert (expected[-1], answer["finish"]) == (end, "eos")
    assert len(expected) <= 5


def test_raw_continues_the_text_itself(generate, greedy, target):
    raw = json.loads(generate("--raw", "--json").out)
    assert raw["token_ids"] == greedy(target, (), PROMPT, 16)
    assert raw["token_ids"] != json.loads(generate("--json").out)["token_ids"]


def test_dash_reads_standard_input(generate, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(PROMPT))
    assert (
        generate("--json", prompt="-").out.split('"prefill')[0] == generate("--json").out.split('"prefill')[0]
    )


def test_stop_text_ends_the_answer_before_it(generate):
    whole = json.loads(generate("--json").out)["text"].split()
    third = whole[2]
    cut = json.loads(generate("--stop", third, "--json").out)
    assert cut["finish"] == "stop"
    assert cut["text"].split() == whole[: whole.index(third)]


def test_dense_prefill_reads_the_prompt_with_all_blocks(generate):
    sparse, dense = (
        json.loads(generate("--skip", "0,3", "--prefill", policy, "--json").out)["token_ids"]
        for policy in ("sparse", "dense")
    )
    assert dense[0] == json.loads(generate("--json").out)["token_ids"][0]
    assert dense != sparse


def test_map_and_domain_give_the_skip_set(generate, finished):
    selected = finished.document["selected"]
    assert selected
    chosen = json.loads(generate("--map", finished.map, "--domain", "words", "--json").out)
    listed = json.loads(generate("--skip", ",".join(map(str, selected)), "--json").out)
    assert chosen["skip"] == selected
    assert chosen["token_ids"] == listed["token_ids"]


@pytest.mark.parametrize("passes", [True, False])
def test_map_entry_that_the_held_out_check_refuses_is_told(generate, finished, tmp_path, passes):
    document = json.loads(finished.map.read_text())
    entry = document["domains"]["words"]
    entry |= {"skip": [1], "held_out": entry["held_out"] | {"passes_gate": passes}}
    path = tmp_path / "told.json"
    path.write_text(json.dumps(document))
    ran = generate("--map", path, "--domain", "words", "--json")
    assert ran.code == 0
    assert ran.err == ("" if passes else "skipmap: the held-out check refuses {1} for words\n")
    # The draft is the map's unless another one is given.
    assert json.loads(ran.out)["draft"] == document["draft"]["method"] == "prompt_lookup"
    other = generate("--map", path, "--domain", "words", "--draft", "sam", "--json")
    assert json.loads(other.out)["draft"] == "sam"


def test_map_of_another_model_is_refused(skipmap, save_target, finished):
    other = save_target("qwen3")
    ran = skipmap("generate", "--target", other, "--prompt", "w1", "--map", finished.map, "--domain", "words")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("skipmap: --map: was made for another model (")


@pytest.mark.parametrize("skip", ["1,2", [9], [-1], [1.5], [True], None, [0, 1, 2, 3, 4, 5]])
def test_map_with_a_bad_skip_set_is_refused(generate, finished, tmp_path, skip):
    document = json.loads(finished.map.read_text())
    document["domains"]["words"]["skip"] = skip
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(document))
    ran = generate("--map", path, "--domain", "words")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--skip", "6"], 2, "--skip: block 6 does not exist; the target has blocks 0..5"),
        (["--skip", "0,1,2,3,4,5"], 2, "--skip: all 6 blocks are skipped; at least one must run"),
        (["--skip=-1"], 2, "--skip: '-1' is no block index; give indices as in 3,7 or 'dense'"),
        (["--skip", "1-3"], 2, "--skip: '1-3' is no block index"),
        (["--skip", "1,,2"], 2, "--skip: '' is no block index"),
        (["--skip", "9" * 5000], 2, "--skip: '999"),
        (["--draft", "oracle"], 2, "draft.method: 'oracle' is unknown; known: bild, clasp, draft_model"),
        (["--draft-param", "depth=3"], 2, "draft.params.depth: sam has no such parameter; known: corpus"),
        (["--draft-param", "growth=NaN"], 2, "draft.params.growth: Input should be a finite number"),
        (["--draft-param", "junk"], 2, "--draft-param: 'junk' is not of the form name=value"),
        (["--draft", "none", "--draft-param", "a=1"], 2, "--draft-param: belongs to a draft method"),
        (["--draft-param", "corpus=none.txt"], 3, "draft.params.corpus: no file 'none.txt'"),
        (["--max-new-tokens", "0"], 2, "--max-new-tokens: 0 is given; give at least 1"),
        (
            ["--max-new-tokens", 10**9],
            2,
            "prompt: 10 tokens and 1000000000 new ones pass the target's context",
        ),
        (
            ["--temperature", "nan"],
            2,
            "--temperature: nan is given; give a number 0 (greedy) or from 0.01 to 10",
        ),
        (["--temperature", "-1"], 2, "--temperature: -1.0 is given; give a number 0 (greedy)"),
        (["--temperature", "1e-308"], 2, "--temperature: 1e-308 is given; give a number 0 (greedy)"),
        (["--draft", ""], 2, "--draft: is empty; name a draft method"),
        (["--prompt", "-", "--prompt", "-"], 2, "--prompt: reads standard input twice"),
        (["--draft-param", "corpus=" + "[" * 100_000], 2, "draft.params.corpus: "),
        (["--top-k", "-1"], 2, "--top-k: -1 is given; give a number 0 (all) or more"),
        (["--top-p", "0"], 2, "--top-p: 0.0 is given; give a number above 0 and at most 1"),
        (["--top-p", "nan"], 2, "--top-p: nan is given"),
        (["--map", "map.json"], 2, "--map: and --domain belong together; give both or neither"),
        (["--domain", "words"], 2, "--map: and --domain belong together"),
        (["--map", "none.json", "--domain", "words"], 3, "no file 'none.json'"),
        (["--dtype", "float8"], 2, "dtype: 'float8' given; allowed: auto, bfloat16"),
        (["--device", "tpu"], 2, "device: 'tpu' given; allowed: auto, cpu"),
        (["--target", "./nowhere"], 3, "target: ./nowhere does not exist; give a known name"),
        (["--raw", "--prompt", ""], 2, "prompt: has no tokens; give some text"),
        (["--prompt", "w1 " * 300], 2, "prompt: 302 tokens and 16 new ones pass the target's context of 256"),
        (["--prompt", "\udc80"], 2, "--prompt: is not valid UTF-8; give text in UTF-8"),
    ],
)
def test_bad_input_is_one_line_with_the_way_out(generate, options, code, message):
    ran = generate(*options)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(f"skipmap: {message}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(("part", "value"), [("target", "x"), ("target", {}), ("domains", 3)])
def test_edited_map_is_named(generate, finished, tmp_path, part, value):
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(json.loads(finished.map.read_text()) | {part: value}))
    ran = generate("--map", path, "--domain", "words")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(f"skipmap: {path}: cannot be used (")


def test_domain_that_the_map_lacks(generate, finished):
    ran = generate("--map", finished.map, "--domain", "poems")
    assert (ran.code, ran.err) == (3, "skipmap: domain 'poems' is not in the map; it has words\n")


def test_result_is_no_map(generate, finished):
    ran = generate("--map", finished.result, "--domain", "words")
    assert ran.code == 2
    assert "schema is 'skipmap.result/1', not 'skipmap.map/1'" in ran.err


def test_map_and_skip_exclude_each_other(generate, finished):
    ran = generate("--map", finished.map, "--domain", "words", "--skip", "1")
    assert ran.code == 2
    assert "argument --skip: not allowed with argument --map" in ran.err


@pytest.mark.parametrize("template", ["{% for x %}", "{{ raise_exception('no system') }}"])
def test_chat_template_that_fails_is_named(skipmap, save_target, template):
    target = save_target()
    (target / "chat_template.jinja").write_text(template)
    ran = skipmap("generate", "--target", target, "--prompt", "w1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("skipmap: domain.template: the chat template of this model failed (")
    assert skipmap("generate", "--target", target, "--prompt", "w1", "--raw").code == 0
