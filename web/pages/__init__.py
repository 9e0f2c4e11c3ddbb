"""One module a noun: what its addresses show and do."""
