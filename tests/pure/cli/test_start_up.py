"""The interpreter is hurried only until the model is there."""

import gc
import sys

from halfline.cli.start_up import hurry, settle


def test_after_settling_the_interpreter_collects_and_switches_as_usual() -> None:
    usual = sys.getswitchinterval()
    assert gc.isenabled()
    try:
        hurry()
        assert not gc.isenabled()
        assert sys.getswitchinterval() < usual
    finally:
        settle()
    assert gc.isenabled()
    assert sys.getswitchinterval() == usual
