"""Search strategies: one module each, and the registry that names them."""
