"""A loaded engine takes little more memory than what it must hold."""

from pathlib import Path

from halfline.bench.resident import measure_resident
from halfline.bench.steps import blocks_for


def test_the_embedded_model_stays_within_its_bound_in_an_arena_of_its_size(embedded_model: Path) -> None:
    resident = measure_resident(embedded_model, blocks_for(576))
    assert resident.weight_bytes > 90e6
    assert resident.kv_bytes == 576 * 30 * 2 * 192 * 2
    assert resident.rss_bytes <= resident.bound_bytes


def test_an_arena_that_is_not_used_takes_no_memory(embedded_model: Path) -> None:
    small, large = (measure_resident(embedded_model, blocks_for(tokens)) for tokens in (576, 16_384))
    # 16,384 tokens would take 755 MB. Pages of 2 MiB in each of 30 layers are the most that may be touched besides.
    assert large.rss_bytes - small.rss_bytes < 100e6
