"""The reference node: an OpenAI-compatible server whose requests run with their domain's skip set.

Its web libraries are the extra ``serve``; nothing outside of this package imports them.
"""
