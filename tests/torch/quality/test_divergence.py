"""Our KL is torch's, computed on its own in float64, on rows as wide as a vocabulary."""

import numpy as np
import pytest
import torch

from halfline.quality.divergence import compare_rows


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_kl_likelihood_and_agreement_are_torchs(spread: float) -> None:
    generator = np.random.default_rng(0)
    baseline, candidate = (
        (spread * generator.standard_normal((5, 49_152))).astype(np.float32) for _ in range(2)
    )
    true_ids = generator.integers(49_152, size=5).astype(np.int32)
    scores = compare_rows(baseline, candidate, true_ids, 0)
    p, q = (torch.log_softmax(torch.from_numpy(each).double(), dim=1) for each in (baseline, candidate))
    kl = torch.nn.functional.kl_div(q, p, reduction="none", log_target=True).sum(dim=1)
    np.testing.assert_allclose(scores.kl, kl.numpy(), rtol=1e-10)
    nll = torch.nn.functional.nll_loss(q, torch.from_numpy(true_ids).long(), reduction="none")
    np.testing.assert_allclose(scores.candidate_nll, nll.numpy(), rtol=1e-12)
    assert scores.same_top.tolist() == (p.argmax(dim=1) == q.argmax(dim=1)).tolist()
