"""One file per client language: its JSON in, its JSON out, nothing else."""
