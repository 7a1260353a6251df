"""The KV benchmark's own arithmetic, and that it measures what it says."""

import pytest

from halfline.bench.allocation import Request, editor_requests, replay
from halfline.bench.kv_accounts import measure_hit_path
from halfline.bench.kv_engine import measure_crowd, measure_reuse
from halfline.bench.kv_run import measure_waste
from halfline.bench.kv_slabs import Slabs
from halfline.bench.kv_steps import measure_formats, measure_shared, measure_waiting
from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.model.kv_format import INT8


def test_a_sequence_moves_to_the_next_slab_when_it_outgrows_its_own() -> None:
    slabs = Slabs((4, 8))
    slabs.grow(0, 3)
    assert (slabs.reserved, slabs.span) == (4, 4)
    slabs.grow(0, 4)
    assert (slabs.reserved, slabs.copied) == (4, 0)
    slabs.grow(0, 5)
    assert (slabs.reserved, slabs.copied) == (8, 4)
    assert slabs.peak_reserved == 12, "while it was copied it held both"
    with pytest.raises(ValueError, match="9 tokens"):
        slabs.grow(0, 9)


def test_a_free_slab_serves_its_own_class_again_and_no_other() -> None:
    slabs = Slabs((4, 8))
    slabs.grow(0, 8)
    slabs.free(0)
    slabs.grow(1, 8)
    assert slabs.span == 8
    slabs.free(1)
    slabs.grow(2, 2)
    assert (slabs.span, slabs.reserved) == (12, 4)


def test_waste_of_slabs_is_what_a_pencil_says() -> None:
    waste = replay([Request(3, 1)], Slabs((4, 8)), 1)
    assert waste.inside == pytest.approx((1 / 4 + 0) / 2)
    assert waste.between == 0.0


def test_blocks_waste_far_less_than_slabs() -> None:
    blocks, slabs, _ = measure_waste(editor_requests(400, max_tokens=2048)).values()
    assert blocks.inside < 0.04 < slabs.inside


def test_the_hit_path_is_looked_at_as_often_as_asked() -> None:
    path = measure_hit_path(2)
    assert all(len(times) == 2 for times in (path.first, path.again, path.adopt, path.release, path.publish))


def test_reuse_and_crowd_run_on_any_executor() -> None:
    engine = EngineHandle(HashExecutor(400), EngineOptions(step_tokens=256))
    engine.start()
    (reuse,) = measure_reuse(engine, 256, [40], 2)
    assert len(reuse.cold) == len(reuse.typed) == len(reuse.known) == 2
    assert engine.stats().total_reused_tokens == 2 * (37 + 39)
    crowd = measure_crowd(engine, 256, 20, shared_tokens=32, own_tokens=8, new_tokens=3)
    assert crowd.num_finished == 20
    assert 0 < crowd.peak_held_blocks <= crowd.num_blocks == 400
    engine.close(0.0)


def test_formats_and_shared_beginnings_take_turns_on_any_executor() -> None:
    both = HashExecutor(10), HashExecutor(10, kv_format=INT8)
    turns = measure_formats(*both, places=[32, 64], rounds=3)
    assert list(turns) == [32, 64]
    assert all(len(each.one) == len(each.other) == len(each.ratios) == 3 for each in turns.values())
    assert len(measure_shared(HashExecutor(12), 3, 32, 2).ratios) == 2


def test_while_somebody_waits_only_steps_with_prompts_count_and_not_the_first() -> None:
    waiting = measure_waiting(HashExecutor(300), 1000)
    assert len(waiting.ms) == len(waiting.num_rows) > 0
    assert min(waiting.num_rows) > 4
    assert sum(waiting.num_rows) < 4000, "the first steps were left out"
