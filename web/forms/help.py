"""What the form for a job says about each field: its label, a sentence of help, and words for its choices.

What is not written down here is taken from where the field or the choice is defined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skipmap.profiling.strategies.registry import STRATEGIES
from skipmap.prose import sentence
from web.forms.fields import Field, fields
from web.views.strategies import strategy_summary, strategy_title


@dataclass(frozen=True)
class Help:
    """``rare``: few people need it, so it stands folded away."""

    label: str
    text: str
    rare: bool = False
    unit: str = ""


HELP = {
    "target.id": Help(
        "Target",
        "The model that verifies drafts: a known one, a hub model as owner/name, or a path inside the server's "
        "model folders.",
    ),
    "target.revision": Help(
        "Revision",
        "Branch, tag or commit of a hub model. Leave it empty for the newest, or for any other target.",
        rare=True,
    ),
    "target.dtype": Help(
        "Number format",
        "Format of weights and sums. Automatic is float32 on a CPU, and a half-precision one on a GPU.",
        rare=True,
    ),
    "target.device": Help(
        "Device",
        "Which workers may take the job: auto for any, cpu, cuda or cuda:N.",
        rare=True,
    ),
    "draft.method": Help("Draft method", "What proposes the tokens that the target verifies."),
    "draft.params": Help(
        "Other parameters",
        "Parameters without a field above, as name=value on a line each.",
        rare=True,
    ),
    "draft.state": Help(
        "Memory between prompts",
        "Fresh for each prompt, the order of prompts makes no difference. Carried on, it is as published "
        "benchmarks do it.",
        rare=True,
    ),
    "domain.name": Help(
        "Domain",
        "The kind of traffic. It decides how prompts are written and answers are scored, unless you say otherwise "
        "below.",
    ),
    "domain.metric": Help(
        "Metric", "How answers are scored. A domain with a new name needs one; others have their own."
    ),
    "domain.template": Help(
        "Prompt template", "How a prompt is written for the model. Empty takes the domain's."
    ),
    "domain.shots": Help(
        "Examples in the prompt",
        "Solved examples that stand before each question, taken out of the prompts. Empty takes the template's "
        "number.",
        rare=True,
    ),
    "calibration.source": Help(
        "Prompts from", "A part of the prompts is searched on, the rest confirms what was found."
    ),
    "calibration.format": Help("Format", "How the prompts are stored. Automatic finds it out.", rare=True),
    "calibration.category": Help(
        "Category", "Use the prompts of one category alone. Required when there are several."
    ),
    "calibration.columns": Help(
        "Columns",
        "Which column of the data set holds what, one a line, such as prompt=question and reference=answers.text.",
    ),
    "calibration.dataset_config": Help(
        "Configuration", "Name of a part of the data set, where it has several."
    ),
    "calibration.dataset_split": Help("Split", "Such as train or test, where the data set has several."),
    "calibration.calibration_fraction": Help(
        "Share to search on",
        "So much of the prompts is searched on; the others are kept for the check at the end. 0.2 is 20 %.",
        rare=True,
    ),
    "calibration.seed": Help(
        "Seed of the split", "Another number divides the prompts another way.", rare=True
    ),
    "calibration.limit": Help(
        "Use at most", "Fewer prompts make a quicker and less certain job.", unit="prompts"
    ),
    "search.strategy": Help(
        "Strategy",
        "How the sets of layers that are looked at are chosen. All strategies begin with the whole model.",
    ),
    "search.eps": Help(
        "Tolerated loss of accept length",
        "A set of layers may be skipped if no more than this share of the accept length is lost. 0.05 is 5 %.",
    ),
    "search.tau": Help(
        "Tolerated loss of the metric",
        "A set of layers may be skipped if no more than this share of the task metric is lost. 0.05 is 5 %.",
    ),
    "search.max_depth": Help(
        "Skip at most", "Larger sets of layers are not looked at.", unit="layers together"
    ),
    "search.max_pool": Help(
        "Combine at most",
        "So many of the best single layers go on to be combined. Each one more makes the levels much larger.",
        unit="layers",
    ),
    "search.beam_width": Help(
        "Build upon", "So many of the best sets of a level are made larger.", unit="sets"
    ),
    "search.draws": Help("Draw", "So many sets of each size are drawn.", unit="sets"),
    "search.seed": Help("Seed of the draws", "Another number draws other sets.", rare=True),
    "search.protect_first": Help(
        "Keep at the beginning", "The first layers are never skipped, so many of them.", unit="layers"
    ),
    "search.protect_last": Help(
        "Keep at the end", "The last layers are never skipped, so many of them.", unit="layers"
    ),
    "search.max_evaluations": Help(
        "Evaluate at most",
        "Which come first is for the strategy to say. Empty sets no limit.",
        unit="configurations",
    ),
    "search.max_seconds": Help(
        "Search at most",
        "Evaluation time, summed over all workers, after which the search ends with what it has. Empty sets no "
        "limit.",
        unit="seconds",
    ),
    "search.select": Help(
        "Operating point",
        "Which of the sets that pass is the answer. The front holds those that no other beats in both figures.",
    ),
    "search.accept_measure": Help(
        "Accept length counts",
        "Tokens a step include the one that the target adds itself; accepted drafts do not.",
        rare=True,
    ),
    "search.gate": Help(
        "Check on held-out prompts",
        "What has to stay within the tolerances on the prompts that were kept back.",
        rare=True,
    ),
    "search.group_size": Help(
        "Evaluated together",
        "Configurations that share a forward. It may change figures in the last digits, so keep it to compare jobs.",
        rare=True,
        unit="configurations",
    ),
    "search.batch_tokens": Help(
        "Tokens a batch", "Lower it where a worker runs out of memory.", rare=True, unit="tokens"
    ),
    "search.max_held_out_points": Help(
        "Check at most", "So many sets are run on held-out prompts in the end.", rare=True, unit="sets"
    ),
    "search.allow_no_signal": Help(
        "Search even without a signal",
        "By default a job ends at once when the whole model scores no better than a trivial answer.",
        rare=True,
    ),
    "decoding.max_new_tokens": Help("Longest answer", "Empty takes the domain's length.", unit="tokens"),
    "decoding.temperature": Help("Temperature", "At 0 the likeliest token is always taken, which is usual."),
    "decoding.top_k": Help(
        "Top k", "Above temperature 0: sample from so many of the likeliest tokens. 0 takes all.", rare=True
    ),
    "decoding.top_p": Help(
        "Top p",
        "Above temperature 0: sample from the likeliest tokens that together reach this probability.",
        rare=True,
    ),
    "decoding.seed": Help(
        "Seed of sampling", "Another number gives other answers above temperature 0.", rare=True
    ),
    "decoding.stop": Help(
        "Stop strings",
        'Answers end before one of these, one a line. A line break is written "\\n", with the quotes.',
        rare=True,
    ),
    "decoding.prefill": Help(
        "The prompt itself runs",
        "Whether layers are skipped for the prompt as well, or only for what is drafted.",
    ),
    "name": Help("Name", "For people, to find the job again."),
    "labels": Help("Labels", "To find jobs by, as name=value on a line each."),
    "priority": Help("Priority", "From 0 to 9; workers take jobs with 9 first."),
}
"""By path of the field."""

CHOICES = {
    "target.dtype": {
        "auto": "automatic",
        "float32": "float32",
        "bfloat16": "bfloat16",
        "float16": "float16",
    },
    "draft.state": {"prompt": "fresh for each prompt", "run": "carried on from prompt to prompt"},
    "calibration.format": {
        "auto": "automatic",
        "jsonl": "lines of JSON",
        "spec_bench": "Spec-Bench questions",
        "mmlu": "table as of MMLU",
        "datasets": "data set of the hub",
    },
    "search.select": {
        "paper": "cheapest on the front",
        "cheapest": "cheapest of all",
        "fastest": "fastest of all",
    },
    "search.accept_measure": {
        "tokens_per_step": "tokens a step",
        "accepted_drafts": "accepted drafts (stricter)",
    },
    "search.gate": {
        "point": "the measured value",
        "confident": "the lower end of its interval (stricter)",
    },
    "decoding.prefill": {
        "sparse": "without the skipped layers too",
        "dense": "on the whole model",
    },
}
"""By path of the field: what each of its values means."""

_REGISTERED: Mapping[str, Mapping[str, str]] = {
    "search.strategy": {name: f"{strategy_title(name)}: {strategy_summary(name)}" for name in STRATEGIES}
}
"""By path of the field: values that the library registers, in the order of lists, and what it says of each."""

UNSET = {
    "target.dtype": "as the target's entry says, else automatic",
    "draft.state": "as the draft's entry says, else fresh for each prompt",
}
"""By path of the field: what it means to choose nothing."""


def help_of(path: str) -> Help:
    """Label and help of a field."""
    if path in HELP:
        return HELP[path]
    field = fields()[path]
    return Help(
        _as_words(field.name), sentence(field.about or f"see {path} in the API's description"), rare=True
    )


def paths_of(section: str) -> list[str]:
    """Fields of a section, in the order of the form: those that it names, then the others as the model has them."""
    own = [path for path, field in fields().items() if field.section == section]
    order = {path: place for place, path in enumerate(HELP)}
    return sorted(own, key=lambda path: order.get(path, len(order)))


def choices_of(field: Field) -> list[tuple[str, str]]:
    """Every value that a field's model lists, with what it means."""
    registered = _REGISTERED.get(field.path, {})
    words = {**registered, **CHOICES.get(field.path, {})}
    order = {value: place for place, value in enumerate(registered)}
    values = sorted(field.options, key=lambda value: order.get(value, len(order)))
    return [(value, words.get(value) or value.replace("_", " ")) for value in values]


def _as_words(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")
