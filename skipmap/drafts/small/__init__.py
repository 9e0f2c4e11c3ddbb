"""Small causal LMs that draft: loading them, and running them along with many requests."""
