"""What a divergence says to people, and to scripts."""

from dataclasses import asdict

from halfline.quality.divergence import Divergence, Interval


def rows(divergence: Divergence) -> tuple[tuple[str, str], ...]:
    """Name and value of each number, for a table."""
    return (
        ("positions", f"{divergence.num_positions:,} in {divergence.num_files} files"),
        ("KL mean", f"{divergence.mean_kl:.2e} nats{_interval(divergence.mean_kl_interval, '.2e')}"),
        ("KL p50 / p99", f"{divergence.p50_kl:.2e} / {divergence.p99_kl:.2e}"),
        ("KL max", f"{divergence.max_kl:.2e}"),
        ("same top token", f"{divergence.top1_agreement:.2%}{_interval(divergence.top1_interval, '.2%')}"),
        ("perplexity", f"{divergence.perplexity_ratio:.5f} × the baseline's"),
        ("NLL of the true token", f"{divergence.baseline_nll:.4f} → {divergence.candidate_nll:.4f} nats"),
    )


def record(divergence: Divergence) -> dict[str, object]:
    """The same as plain JSON data."""
    return {**asdict(divergence), "perplexity_ratio": divergence.perplexity_ratio}


def _interval(interval: Interval | None, form: str) -> str:
    return "" if interval is None else f"  (95 %: {interval.low:{form}} – {interval.high:{form}})"
