"""Parts of ``benchmarks.orchestration``: the service without a model."""
