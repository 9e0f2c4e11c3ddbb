from __future__ import annotations

import pytest

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import generate
from skipmap.skipset import SkipSet
from skipmap.training.texts import common_frame, read_texts, whole_sentences, write_texts


@pytest.mark.parametrize(
    ("texts", "frame"),
    [
        (["Translate: one two", "Translate: one three"], ("Translate: one ", "")),
        (["a long text. Answer now.", "other text. Answer now."], ("", " text. Answer now.")),
        (["only one"], ("", "")),
        (["same", "same"], ("", "")),
        (["walked on", "walking on"], ("", " on")),
    ],
)
def test_what_prompts_share_is_kept_up_to_a_word(texts: list[str], frame: tuple[str, str]) -> None:
    assert common_frame(texts) == frame


@pytest.mark.parametrize(
    ("text", "whole"),
    [("One. Two and", "One."), ("Why? Because", "Why?"), ("no end", "no end"), ("Done.", "Done.")],
)
def test_a_cut_text_ends_with_a_sentence(text: str, whole: str) -> None:
    assert whole_sentences(text) == whole


def test_texts_are_the_targets_own_answers_to_calibration_prompts_first(loaded, domain, tmp_path) -> None:
    job = domain("first")
    texts = write_texts(tmp_path / "texts.jsonl", [job], 12, seed=0)
    assert [text.origin for text in texts[:6]] == ["calibration"] * 5 + ["invented"]
    assert len(texts) == 12
    prompts = [tuple(job.subject.prompt(item)) for item in job.data.calibration]
    assert [text.prompt for text in texts[:5]] == prompts
    for text in texts:
        alone = generate(loaded.model, text.prompt, SkipSet(), None, job.subject.stop_rule, DecodeOptions(10))
        assert text.answer == alone.token_ids
    # Invented prompts begin and end as all calibration prompts do.
    for text in texts[5:]:
        said = loaded.tokenizer.decode(list(text.prompt), skip_special_tokens=True)
        assert said.startswith("w1 w2 ")
        assert said.rstrip().endswith(" w3 w0")


def test_held_out_prompts_are_never_seen(domain, tmp_path) -> None:
    job = domain("second")
    texts = write_texts(tmp_path / "texts.jsonl", [job], 12, seed=0)
    held_out = {tuple(job.subject.prompt(item)) for item in job.data.held_out}
    assert not held_out & {text.prompt for text in texts}


def test_an_interrupted_file_goes_on_as_if_it_had_not_been(domain, tmp_path) -> None:
    job = domain("third")
    whole_file = tmp_path / "whole.jsonl"
    whole = write_texts(whole_file, [job], 24, seed=3)
    cut = tmp_path / "cut.jsonl"

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_texts(cut, [job], 24, seed=3, told=stop)
    text = whole_file.read_text().splitlines(keepends=True)
    with cut.open("a") as file:
        # Two texts of the next batch, and a part of the third.
        file.writelines([*text[5:7], text[7][:20]])
    assert write_texts(cut, [job], 24, seed=3) == whole == read_texts(cut)
