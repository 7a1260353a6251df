"""Which stretches of which traces are played: what the user named, or places spread evenly over all there is."""

from collections.abc import Sequence

from halfline.bench.replay.trace import Stretch, Trace


def chosen(
    traces: Sequence[Trace], first: Sequence[int], num_places: int, num_keystrokes: int
) -> list[Stretch]:
    """A stretch of every trace from each of the transactions `first`; without any, `num_places` spread over the traces,
    each of which gets as many as the others, or one more.

    Raises ValueError for a place beyond a trace's end.
    """
    if first:
        return [trace.stretch(place, num_keystrokes) for place in first for trace in traces]
    stretches = []
    for number, trace in enumerate(traces):
        num_here = len(range(number, num_places, len(traces)))
        room = max(0, len(trace.transactions) - num_keystrokes)
        for place in range(num_here):
            # The first of several begins at the beginning, the last ends at the end.
            start = room * place // max(1, num_here - 1) if num_here > 1 else 0
            stretches.append(trace.stretch(start, num_keystrokes))
    return stretches
