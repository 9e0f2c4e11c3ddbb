"""Bases of what the API takes and answers: requests are read strictly, answers leniently."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Request(BaseModel):
    """What a client sends; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Answer(BaseModel):
    """What the service answers; unknown fields are passed over, so that a client understands a newer service."""

    model_config = ConfigDict(extra="ignore", frozen=True)
