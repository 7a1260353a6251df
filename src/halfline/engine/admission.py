"""Whether a waiting sequence may hold blocks now, beside those that already do."""

from collections import Counter
from collections.abc import Sequence as Series

from halfline.engine.sequence import Sequence
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import Match


class Admission:
    """Counts blocks; changes nothing."""

    def __init__(self, pool: BlockPool, max_num_seqs: int) -> None:
        self._pool = pool
        self._max_num_seqs = max_num_seqs

    def fits(
        self,
        sequence: Sequence,
        match: Match,
        peers: Series[Sequence],
        lower: Series[Sequence],
        leaving: Series[Sequence] = (),
    ) -> bool:
        """Whether all of it fits beside what its peers still need for the tokens they have and one more.

        Admitting on the strength of the first chunk alone would admit, preempt and admit again. Those of `lower` rank
        keep what they have and are promised nothing; those `leaving` would have given everything back.
        """
        if len(peers) + len(lower) >= self._max_num_seqs:
            return False
        reclaimed = self._held_by_nobody_else(leaving)
        revived = len(reclaimed.intersection(match.block_ids))
        cost = sequence.table.cost(match, len(sequence.token_ids)) + revived
        if sequence.work.scores_only and any(each.work.scores_only for each in peers):
            # One scored prompt at a time may push cached blocks out; the next takes its blocks over.
            return cost <= self._pool.num_free - self._pool.num_cached
        reserved = sum(each.table.num_missing(len(each.token_ids) + 1) for each in peers)
        return cost + reserved <= self._pool.num_free + len(reclaimed)

    def _held_by_nobody_else(self, leaving: Series[Sequence]) -> set[int]:
        num_holds = Counter(block_id for each in leaving for block_id in each.table.held_ids)
        return {block_id for block_id, held in num_holds.items() if self._pool.num_holders(block_id) == held}
