"""The `halfline` command: the only place that reads settings and writes words for people."""
