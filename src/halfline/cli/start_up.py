"""How the interpreter is set while modules are imported and a model is loaded, which is not how it should serve."""

import gc
import sys

_USUAL_SWITCH_S = 0.005
_START_UP_SWITCH_S = 0.0005


def hurry() -> None:
    """Until `settle`: collect nothing, and let threads take turns often.

    What imports make is not garbage, and looking for some takes a seventh of their time. The thread that loads gives
    up the interpreter for every tensor it packs and would wait the usual 5 ms to have it back from the one that
    imports, 272 times for the embedded model.
    """
    gc.disable()
    sys.setswitchinterval(_START_UP_SWITCH_S)


def settle() -> None:
    """As usual again."""
    # No gc.freeze(): a C++ engine in a frozen cycle would outlive the interpreter, and nanobind would say so.
    sys.setswitchinterval(_USUAL_SWITCH_S)
    gc.enable()
