"""The node as an OpenAI client sees it."""

from __future__ import annotations

import pytest

TEXTS = ["the old man", "über naïve façade", "日本語 日本", "the sea and the sea and the sea and"]


def test_models(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "skipmap"


@pytest.mark.parametrize("domain", ["words", "poems", None])
@pytest.mark.parametrize("text", TEXTS)
def test_chat_answers_as_the_library_does(client, decoded, chat_prompt, text, domain):
    skip = {"words": [1, 3], "poems": [0, 2, 3], None: []}[domain]
    expected = decoded(chat_prompt(text), skip)
    answer = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": text}],
        max_tokens=24,
        extra_body={"domain": domain} if domain else None,
    )
    assert answer.choices[0].message.content == expected.text
    assert answer.choices[0].finish_reason == ("length" if expected.finish == "length" else "stop")
    assert answer.usage.prompt_tokens == len(chat_prompt(text))
    assert answer.usage.completion_tokens == len(expected.token_ids)
    facts, counts = answer.skipmap, expected.counts
    assert facts["domain"] == domain
    assert facts["skip"] == skip
    assert (facts["map_version"], facts["draft"]) == (1, "prompt_lookup")
    assert facts["verification_steps"] == counts.steps
    assert facts["accept_length"] == pytest.approx(sum(counts.emitted) / counts.steps)
    assert facts["blocks_run_per_step"] == 5 - len(skip)


def test_streamed_text_is_the_whole_text(client, loaded):
    for text in TEXTS:
        asked = {"model": "tiny", "prompt": text, "max_tokens": 60, "extra_body": {"domain": "words"}}
        whole = client.completions.create(**asked)
        parts = [*client.completions.create(**asked, stream=True, stream_options={"include_usage": True})]
        pieces = [part.choices[0].text for part in parts if part.choices]
        assert "".join(pieces) == whole.choices[0].text
        assert len([piece for piece in pieces if piece]) > 1
        assert parts[-1].usage == whole.usage
        assert parts[-1].skipmap == parts[-2].skipmap == whole.skipmap
        assert parts[-2].choices[0].finish_reason == whole.choices[0].finish_reason


def test_prompts_as_text_and_as_tokens(client, loaded, decoded):
    tokens = loaded.tokenizer(TEXTS[0])["input_ids"]
    expected = loaded.decode(list(decoded(tokens, [], 16).token_ids))
    for prompt in (TEXTS[0], tokens, [TEXTS[0]], [tokens]):
        answer = client.completions.create(model="tiny", prompt=prompt)
        assert [choice.text for choice in answer.choices] == [expected]
    several = client.completions.create(model="tiny", prompt=TEXTS, n=2)
    assert [choice.index for choice in several.choices] == [*range(8)]
    assert several.choices[0].text == several.choices[1].text == expected


def test_sampled_choices_follow_the_seed(client, decoded, chat_prompt):
    asked = {
        "model": "tiny",
        "messages": [{"role": "user", "content": TEXTS[0]}],
        "max_tokens": 24,
        "temperature": 1,
        "top_p": 0.9,
        "n": 3,
        "seed": 7,
    }
    answer = client.chat.completions.create(**asked)
    texts = [choice.message.content for choice in answer.choices]
    prompt = chat_prompt(TEXTS[0])
    assert texts == [decoded(prompt, [], temperature=1.0, top_p=0.9, seed=7 + i).text for i in range(3)]
    assert len(set(texts)) == 3
    unseeded = [
        client.chat.completions.create(**asked | {"n": 1, "seed": None}).choices[0].message.content
        for _ in range(2)
    ]
    assert unseeded[0] != unseeded[1]


def test_stop_strings_end_an_answer_before_them(client, decoded, loaded):
    tokens = loaded.tokenizer(TEXTS[0])["input_ids"]
    whole = loaded.decode(list(decoded(tokens, [], 60).token_ids))
    # Longer than a token, so it lies across borders.
    stop = whole[11:17]
    asked = {"model": "tiny", "prompt": TEXTS[0], "max_tokens": 60, "stop": ["never there", stop]}
    answer = client.completions.create(**asked)
    assert answer.choices[0].text == whole[: whole.index(stop)]
    assert answer.choices[0].finish_reason == "stop"
    pieces = [part.choices[0].text for part in client.completions.create(**asked, stream=True)]
    assert "".join(pieces) == answer.choices[0].text


def test_chat_stream_begins_with_the_role(client):
    stream = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "the"}], max_completion_tokens=5, stream=True, n=2
    )
    parts = [*stream]
    assert [(p.choices[0].index, p.choices[0].delta.role) for p in parts[:2]] == [
        (0, "assistant"),
        (1, "assistant"),
    ]
    assert [p.choices[0].finish_reason for p in parts].count("length") == 2
    assert parts[-1].skipmap["map_version"] == 1


def test_domain_by_header_and_unknown_domain(client):
    def ask(**more):
        raw = client.completions.with_raw_response.create(model="tiny", prompt=TEXTS[0], **more)
        return raw.headers, raw.parse().skipmap

    headers, facts = ask(extra_headers={"X-Skipmap-Domain": "words"})
    assert (headers["X-Skipmap-Domain"], headers["X-Skipmap-Map-Version"]) == ("words", "1")
    assert facts["skip"] == [1, 3]
    headers, facts = ask(extra_body={"domain": "prose"})
    assert headers["X-Skipmap-Domain"] == "none"
    assert (facts["domain"], facts["skip"], facts["routed"]) == (None, [], False)
    assert facts["note"] == "the map has no domain 'prose'; it runs dense"
