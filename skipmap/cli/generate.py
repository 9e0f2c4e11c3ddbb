"""``skipmap generate``: answer a prompt, or the turns of a talk, with a skip set and a draft method."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from skipmap.calibration.templates import get_template
from skipmap.cli.maps_local import checked_map, read_any
from skipmap.cli.values import complete, parameters
from skipmap.decoding.counts import histogram, position_acceptance
from skipmap.decoding.options import DecodeOptions, Generation
from skipmap.decoding.speculative import generate
from skipmap.decoding.stopping import StopRule
from skipmap.drafts.base import Resources
from skipmap.drafts.registry import check_params, make_draft
from skipmap.errors import InvalidInput
from skipmap.maps.document import document_bytes, skip_for
from skipmap.skipset import SkipSet
from skipmap.spec import COLDEST
from skipmap.target.loaded import load_resolved
from skipmap.target.loading import ResolvedTarget, load_config, resolve_target

PLAIN = "none"
DEFAULT = "sam"


def run(arguments: Namespace) -> int:
    """Print the answers, or tokens, counts and timings as JSON (of the last turn, and of each where there are more)."""
    _check(arguments)
    found = None if arguments.map is None else read_any(arguments.map)
    method, params = _draft(arguments, found)
    if method != PLAIN:
        check_params(method, params)
    resolved = resolve_target(arguments.target)
    skip = _skip(arguments, found, resolved).validate(load_config(resolved).num_hidden_layers, "--skip")
    prompts = [_prompt(given) for given in arguments.prompt]
    loaded = load_resolved(resolved, arguments.dtype, arguments.device)
    plain = arguments.raw or not loaded.tokenizer.chat_template
    template = get_template("plain" if plain else "chat")
    resources = Resources.of(loaded)
    draft = None if method == PLAIN else make_draft(method, params, resources)
    rule = StopRule(loaded.decode, loaded.end_tokens, arguments.stop, arguments.max_new_tokens)
    options = DecodeOptions(
        arguments.max_new_tokens,
        tuple(arguments.stop),
        arguments.temperature,
        arguments.seed,
        arguments.prefill,
        arguments.top_k,
        arguments.top_p,
    )
    turns: list[Generation] = []
    for place in range(len(prompts)):
        answers = [out.text for out in turns]
        prompt = template.render(prompts[: place + 1], answers, [], loaded.tokenizer)
        turns.append(generate(loaded.model, prompt, skip, draft, rule, options))
        if not arguments.json:
            print(turns[-1].text)
            _tell(turns[-1], skip)
    if arguments.json:
        documents = [document(out, skip, method) for out in turns]
        several = {"turns": documents} if len(documents) > 1 else {}
        print(json.dumps(documents[-1] | several, ensure_ascii=False))
    return 0


def document(out: Generation, skip: SkipSet, draft: str) -> dict[str, object]:
    """The JSON form of an answer."""
    accepted, timings = histogram(out.counts.accepted), out.timings
    assert timings
    return {
        "token_ids": list(out.token_ids),
        "text": out.text,
        "finish": out.finish,
        "skip": skip.to_list(),
        "draft": draft,
        "verification_steps": out.counts.steps,
        "accepted_per_step": out.counts.accepted,
        "emitted_per_step": out.counts.emitted,
        "blocks_run_per_step": list(out.blocks_run),
        "scored_per_step": out.counts.scored,
        "accepted_histogram": list(accepted),
        "position_acceptance": list(position_acceptance(accepted, histogram(out.counts.proposed))),
        "prefill_seconds": timings.prefill,
        "decode_seconds": timings.decode,
        "draft_seconds": timings.draft,
        "verify_seconds": timings.verify,
    }


def _check(arguments: Namespace) -> None:
    if (arguments.map is None) != (arguments.domain is None):
        raise InvalidInput("--map", "and --domain belong together; give both or neither")
    if arguments.draft == "":
        raise InvalidInput("--draft", "is empty; name a draft method, or none for plain decoding")
    if arguments.prompt.count("-") > 1:
        raise InvalidInput("--prompt", "reads standard input twice; give - once")
    if arguments.max_new_tokens < 1:
        raise InvalidInput("--max-new-tokens", f"{arguments.max_new_tokens} is given; give at least 1")
    for option, value, allowed, holds in (
        (
            "--temperature",
            arguments.temperature,
            f"0 (greedy) or from {COLDEST} to 10",
            _is_warm(arguments.temperature),
        ),
        ("--top-k", arguments.top_k, "0 (all) or more", arguments.top_k >= 0),
        ("--top-p", arguments.top_p, "above 0 and at most 1", 0 < arguments.top_p <= 1),
    ):
        if not holds:
            raise InvalidInput(option, f"{value} is given; give a number {allowed}")
    if arguments.draft == PLAIN and arguments.draft_param:
        raise InvalidInput("--draft-param", "belongs to a draft method, and --draft is none; leave it out")


def _is_warm(temperature: float) -> bool:
    return temperature == 0 or COLDEST <= temperature <= 10


def _draft(arguments: Namespace, found: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """Draft method and parameters: the given ones, else those that the map was made for, else sam."""
    given = parameters(arguments.draft_param)
    if found is None or arguments.draft is not None:
        return arguments.draft or DEFAULT, given
    with complete(str(arguments.map)):
        return str(found["draft"]["method"]), {**found["draft"]["params"], **given}


def _prompt(given: str) -> str:
    """The prompt's text, of the command line or of standard input."""
    try:
        if given == "-" and sys.stdin is None:
            raise InvalidInput("--prompt", "standard input is closed; give the text itself")
        text = sys.stdin.read() if given == "-" else given
        text.encode()
    except UnicodeError:
        raise InvalidInput("--prompt", "is not valid UTF-8; give text in UTF-8") from None
    return text


def _skip(arguments: Namespace, found: Mapping[str, Any] | None, resolved: ResolvedTarget) -> SkipSet:
    if found is None:
        return SkipSet.parse(arguments.skip, "--skip")
    with complete(str(arguments.map)):
        skip = skip_for(found, arguments.domain)
        if found["target"]["fingerprint"] != resolved.fingerprint:
            raise InvalidInput(
                "--map",
                f"was made for another model ({found['target']['id']}); its fingerprint is not this target's",
            )
        checked_map(document_bytes(found), arguments.map)
        held_out = found["domains"][arguments.domain]["held_out"]
        if skip.blocks and not (held_out or {}).get("passes_gate"):
            print(f"skipmap: the held-out check refuses {skip} for {arguments.domain}", file=sys.stderr)
    return skip


def _tell(out: Generation, skip: SkipSet) -> None:
    steps = out.counts.steps
    pace = f", {sum(out.counts.emitted) / steps:.2f} tokens a step" if steps else ""
    seconds = out.timings.total if out.timings else 0.0
    print(
        f"skipmap: {len(out.token_ids)} tokens in {seconds:.2f} s, {steps} verification steps{pace}, skipped {skip}",
        file=sys.stderr,
    )
