"""The CPU executor: C++ kernels and KV storage behind a thin binding."""
