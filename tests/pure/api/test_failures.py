"""What a failure's headers say."""

import pytest

from halfline.api.failures import error_headers
from halfline.errors import Overloaded


@pytest.mark.parametrize(("wait_s", "said"), [(0.2, "1"), (2.0, "2"), (2.1, "3")])
def test_who_comes_back_after_the_whole_seconds_that_are_said_is_not_too_early(
    wait_s: float, said: str
) -> None:
    assert error_headers(Overloaded(9, 8, wait_s))["Retry-After"] == said
