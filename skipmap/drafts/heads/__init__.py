"""Heads on the target's hidden states (EAGLE, Medusa): networks, their files, and how they draft.

The networks are plain torch modules whose state dict has the keys of the published checkpoints, so that they can be
trained as well as read.
"""
