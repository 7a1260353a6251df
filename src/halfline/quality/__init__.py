"""Measures whether answers got worse: divergence between executors, suites, gates."""
