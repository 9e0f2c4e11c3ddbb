"""Batch choice, counters, prompts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from skipmap.errors import InvalidInput
from skipmap.serving.node.batching import next_batch
from skipmap.serving.node.counters import MAX_DOMAINS, MAX_VERSIONS, Counters, Served
from skipmap.serving.node.prompts import chat_tokens, prompt_tokens
from skipmap.serving.node.shapes import ChatRequest, Message, read_request
from tests.serving.node.conftest import build_tokenizer


@dataclass
class One:
    key: str
    age: int


@pytest.mark.parametrize(
    ("waiting", "room", "going", "busy", "chosen"),
    [
        ("", 4, "", 0, []),
        ("abab", 0, "", 0, []),
        ("abab", 4, "", 0, [0, 2]),
        ("babab", 2, "bacd", 6, [0, 2]),
        ("aaaa", 3, "", 0, [0, 1, 2]),
        ("aab", 4, "aba", 5, [2]),
        ("aa", 4, "aa", 5, []),
        ("aa", 4, "aa", 4, [0, 1]),
    ],
)
def test_next_batch(waiting, room, going, busy, chosen):
    queue = [One(key, age) for age, key in enumerate(waiting)]
    assert [one.age for one in next_batch(queue, room, going, busy)] == chosen


def test_counters_keep_versions_and_domains_apart():
    counters = Counters()
    counters.add("words", 1, Served(requests=1, emitted_tokens=5))
    counters.add("words", 2, Served(requests=2))
    counters.add(None, None, Served(blocks_run=3))
    assert counters.by_version()["words", 1] == Served(requests=1, emitted_tokens=5)
    assert counters.of_version(2)["words"].requests == 2
    assert counters.of_version(None)["unknown"].blocks_run == 3


def test_counters_hold_no_more_domains_than_a_report_takes():
    counters = Counters()
    for number in range(MAX_DOMAINS + 50):
        counters.add(f"d{number}", 1, Served(requests=1))
    found = counters.of_version(1)
    assert len(found) == MAX_DOMAINS + 1
    assert found["unknown"].requests == 50


def test_counters_keep_the_last_versions_apart():
    counters = Counters()
    for version in range(MAX_VERSIONS + 5):
        counters.add("words", 0, Served(requests=1))
        counters.add("words", version, Served(requests=1))
    kept = {0, *range(6, MAX_VERSIONS + 5)}
    assert {version for _, version in counters.by_version()} == kept
    assert counters.of_version(0)["words"].requests == MAX_VERSIONS + 6


def test_chat_of_one_message_is_the_calibration_template(loaded, chat_prompt):
    for content in ("the old man", [{"type": "text", "text": "the old man"}]):
        message = Message(role="user", content=content)
        assert chat_tokens([message], loaded.tokenizer) == chat_prompt("the old man")
    # The template writes the date, so the same one must be given.
    assert loaded.decode(chat_prompt("x")).startswith("26 Jul 2024<user>x")


def test_chat_of_several_messages(loaded):
    messages = [
        Message(role="developer", content="be kind"),
        Message(role="user", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        Message(role="assistant", content="c"),
        Message(role="user", content="d"),
    ]
    text = loaded.decode(chat_tokens(messages, loaded.tokenizer))
    assert text == "26 Jul 2024<system>be kind<user>a\nb<assistant>c<user>d<assistant>"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template; use /v1/completions"),
        ("{{ raise_exception('no system here') }}", "refuses them: no system here"),
    ],
)
def test_template_that_cannot_be_used(template, message):
    tokenizer = build_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(InvalidInput, match=message):
        chat_tokens([Message(role="user", content="x")], tokenizer)


def test_text_prompt_keeps_its_space_and_gets_special_tokens(loaded):
    ids = prompt_tokens("the ", loaded, 0)
    assert ids == [0, *loaded.encode("the ")]
    assert loaded.decode(ids) == "the "


def test_message_that_an_openai_client_sends_back():
    body = (
        b'{"messages": [{"role": "user", "content": "a", "name": "me"}, {"role": "assistant", "content": "b",'
        b' "refusal": null, "tool_calls": null, "annotations": [], "audio": null}]}'
    )
    request = read_request(ChatRequest, body, 1000)
    assert [message.content for message in request.messages] == ["a", "b"]
    with pytest.raises(InvalidInput, match=r"messages\.0\.tool_calls"):
        read_request(ChatRequest, b'{"messages":[{"role":"assistant","content":"","tool_calls":[{}]}]}', 1000)
