"""What a signal does while something lasts, and that it does what it always did afterwards."""

import signal

import pytest

from halfline.cli.interrupts import orderly_end


def test_sigterm_leaves_in_order_within_and_does_afterwards_what_it_did_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    closed = False
    with pytest.raises(SystemExit) as left, orderly_end():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            closed = True
    assert left.value.code == 128 + signal.SIGTERM
    assert closed
    assert signal.getsignal(signal.SIGTERM) is before
