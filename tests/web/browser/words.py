"""Every text that a user can give, as friendly people write it and as others may."""

from __future__ import annotations

from dataclasses import dataclass, fields

_ATTACK = "<img src=x onerror=window.__xss=1>\"'</script><script>window.__xss=1</script>{{7*7}}"


@dataclass(frozen=True)
class Words:
    """Texts by what they are. Each hostile one ends with its own name, so that pages tell which they show."""

    user: str = "Ada Lovelace"
    token: str = "laptop of Ada"
    job: str = "Support chat, second try"
    label: str = "search quality"
    set: str = "support questions, spring"
    prompt: str = "Anna keeps three hens and two geese. Question: How many hens has Anna?"
    reference: str = "three hens"
    answer: str = "Three hens, said Anna."
    stop: str = "Question:"
    move: str = "held-out prompts confirm it"
    override: str = "the traffic of this domain is small, we want to see it live"
    node: str = "the service confirmed the map"
    software: str = "skipmap/0.1.0"
    served: str = "small-talk"
    error: str = "ModelFailure: the target gave no finite logits"


PLAIN = Words()
HOSTILE = Words(**{field.name: f"{_ATTACK} {field.name}" for field in fields(Words)})
