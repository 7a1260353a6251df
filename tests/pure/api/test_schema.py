"""Whatever docs/openapi.json allows, and what it does not, is answered as it says: schemathesis makes it up."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from halfline.api.app import create_app
from halfline.api.options import ApiOptions
from halfline.api.serving import Loaded

pytestmark = pytest.mark.anyio

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def never() -> Loaded:
    raise AssertionError("the page is asked for without a model")


PAGE = create_app(never, ApiOptions()).openapi()
OPERATIONS = {
    each.ok().label: each.ok() for each in schemathesis.openapi.from_dict(PAGE).get_all_operations()
}
WITH_BODY = [label for label, operation in OPERATIONS.items() if operation.body]


def made_up(operation: APIOperation, mode: GenerationMode, most: int) -> list[Case]:
    cases: list[Case] = []

    @settings(
        max_examples=most,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode))
    def collect(case: Case) -> None:
        cases.append(case)

    collect()
    return cases


async def ask(on_stage, label: str, mode: GenerationMode, most: int) -> None:
    async with on_stage() as stage:
        stage.pipeline.most_tokens = 2
        for case in made_up(OPERATIONS[label], mode, most):
            request = case.as_transport_kwargs(base_url="http://halfline")
            request.pop("cookies", None)
            content = request.pop("data", None)
            reply = await stage.client.request(content=content, **request)
            case.validate_response(reply, checks=CHECKS)


@pytest.mark.parametrize("label", OPERATIONS)
async def test_what_the_page_allows_is_answered_as_it_says(on_stage, label: str) -> None:
    await ask(on_stage, label, GenerationMode.POSITIVE, 2)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("label", OPERATIONS)
async def test_three_hundred_requests_of_each_route_are_answered_as_the_page_says(
    on_stage, label: str
) -> None:
    await ask(on_stage, label, GenerationMode.POSITIVE, 300)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("label", WITH_BODY)
async def test_three_hundred_bodies_that_no_page_allows_are_answered_as_it_says(on_stage, label: str) -> None:
    await ask(on_stage, label, GenerationMode.NEGATIVE, 300)
