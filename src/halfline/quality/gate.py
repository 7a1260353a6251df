"""How much divergence is too much: limits, set before anything is measured, and what breaks them."""

from dataclasses import dataclass

from halfline.quality.divergence import Divergence


@dataclass(frozen=True, slots=True)
class Breach:
    """`measured` lies on the wrong side of `limit`."""

    metric: str
    measured: float
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Upper limits in nats, and a lower one for the share of positions where both like the same token best."""

    max_mean_kl: float
    max_p99_kl: float
    min_top1: float

    def breaches(self, divergence: Divergence) -> tuple[Breach, ...]:
        """Empty when the candidate may pass. Not-a-number passes nothing."""
        passed = (
            ("mean_kl", divergence.mean_kl, self.max_mean_kl, divergence.mean_kl <= self.max_mean_kl),
            ("p99_kl", divergence.p99_kl, self.max_p99_kl, divergence.p99_kl <= self.max_p99_kl),
            (
                "top1_agreement",
                divergence.top1_agreement,
                self.min_top1,
                divergence.top1_agreement >= self.min_top1,
            ),
        )
        return tuple(Breach(metric, measured, limit) for metric, measured, limit, ok in passed if not ok)


# For features, judged against the same executor without them: lossless ones change no number beyond float32 rounding,
# near-lossless ones nothing a user could see.
LOSSLESS = Gate(max_mean_kl=1e-6, max_p99_kl=1e-5, min_top1=0.999)
NEAR_LOSSLESS = Gate(max_mean_kl=5e-3, max_p99_kl=5e-2, min_top1=0.985)
