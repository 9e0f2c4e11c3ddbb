"""Domain presets: metric, template, stop strings and answer length of each known kind of traffic."""

from __future__ import annotations

from dataclasses import dataclass

from skipmap.calibration.templates import get_template
from skipmap.errors import InvalidInput, choices
from skipmap.spec import JobSpec

_OWN_TEMPLATE = "chat"
_OWN_MAX_NEW_TOKENS = 64
_FEW_SHOTS = 3
_TEXT_TEMPLATES = ("few_shot", "plain")
_LINE = ("\n",)
_PARAGRAPH = ("\n\n",)


def _stops(text_stop: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    # Spec-Bench stops Vicuna's answers at this text for every model; other dialogues end with a token.
    return (("vicuna", ("</s>",)), *((name, text_stop) for name in _TEXT_TEMPLATES))


@dataclass(frozen=True)
class DomainPreset:
    """What a domain fixes unless the spec says otherwise; ``stop`` pairs a template with its stop strings."""

    metric: str
    template: str
    stop: tuple[tuple[str, tuple[str, ...]], ...]
    max_new_tokens: int
    help: str

    def stop_for(self, template: str) -> tuple[str, ...]:
        """Stop strings under one template; none where the model ends its own turn."""
        return dict(self.stop).get(template, ())


_PRESETS = {
    "summarization": DomainPreset(
        "rougeL", "chat", _stops(_PARAGRAPH), 64, "short summaries of an article, scored by ROUGE-L"
    ),
    "translation": DomainPreset(
        "bleu", "chat", _stops(_LINE), 64, "one sentence from one language to another, scored by BLEU"
    ),
    "qa": DomainPreset(
        "f1", "chat", _stops(_LINE), 32, "short answers from the model's own knowledge, token F1"
    ),
    "rag": DomainPreset(
        "f1", "chat", _stops(_PARAGRAPH), 64, "answers from passages given in the prompt, token F1"
    ),
    "mmlu": DomainPreset("accuracy", "chat", _stops(_LINE), 16, "the letter of the right option, accuracy"),
    "math": DomainPreset(
        "numeric",
        "chat",
        _stops(_PARAGRAPH),
        256,
        "word problems worked out in steps, the final number must match",
    ),
}


def preset(name: str) -> DomainPreset:
    """Preset of a domain; an unknown name is an error that lists the presets."""
    found = _PRESETS.get(name)
    if found is None:
        raise InvalidInput(
            "domain.name",
            f"no preset {name!r}; presets are {choices(_PRESETS)}; for your own domain give domain.metric (--metric)",
        )
    return found


def preset_names() -> list[str]:
    """Names of all presets."""
    return sorted(_PRESETS)


def resolve(spec: JobSpec) -> JobSpec:
    """Fill metric, template, shots, stop and max_new_tokens from the domain's preset unless given.

    A domain without a preset is the user's own and must name its metric. ``few_shot`` shows 3 examples unless
    told otherwise, the other templates none.
    """
    given = spec.domain
    defaults = _defaults(spec)
    template = given.template or defaults.template
    shows_shots = get_template(template).shows_shots
    if given.shots and not shows_shots:
        raise InvalidInput(
            "domain.shots", f"the template {template} shows no examples (given: {given.shots}); give 0"
        )
    shots = given.shots if given.shots is not None else _FEW_SHOTS if template == "few_shot" else 0
    domain = given.model_copy(
        update={"metric": given.metric or defaults.metric, "template": template, "shots": shots},
    )
    decoding = spec.decoding
    stop = decoding.stop if decoding.stop is not None else defaults.stop_for(template)
    return spec.model_copy(
        update={
            "domain": domain,
            "decoding": decoding.model_copy(
                update={"stop": stop, "max_new_tokens": decoding.max_new_tokens or defaults.max_new_tokens}
            ),
        }
    )


def _defaults(spec: JobSpec) -> DomainPreset:
    name, metric = spec.domain.name, spec.domain.metric
    if name in _PRESETS or metric is None:
        return preset(name)
    return DomainPreset(
        metric, _OWN_TEMPLATE, _stops(_PARAGRAPH), _OWN_MAX_NEW_TOKENS, "a domain of the user's own"
    )
