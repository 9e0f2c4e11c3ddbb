"""The service as its clients see it: what its API takes and answers, and a client for it."""
