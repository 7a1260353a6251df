"""Pages that speak about the code say what the code does."""

from pathlib import Path

from halfline.api.app import create_app
from halfline.api.dialects.openai_body import CompletionBody
from halfline.api.failures import known_statuses
from halfline.api.options import ApiOptions
from halfline.api.serving import Loaded
from halfline.cli.settings_doc import settings_page
from halfline.settings import environment_name, known_keys

DOCS = Path(__file__).parents[2] / "docs"


def never() -> Loaded:
    raise AssertionError("nothing here loads a model")


def test_the_settings_page_is_what_the_code_writes() -> None:
    written = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert written == settings_page(), "run `halfline settings doc > docs/settings.md`"


def test_every_setting_is_on_its_page_under_both_its_names() -> None:
    page = settings_page()
    for key in known_keys():
        assert f"`{key}`" in page
        assert f"`{environment_name(key)}`" in page


def test_every_route_is_on_the_http_page_and_every_route_there_exists() -> None:
    page = (DOCS / "http.md").read_text(encoding="utf-8")
    schema = create_app(never, ApiOptions()).openapi()
    served = {f"{method.upper()} {path}" for path, methods in schema["paths"].items() for method in methods}
    rows = {line.split("`")[1] for line in page.splitlines() if line.startswith(("| `GET", "| `POST"))}
    assert rows == served | {"GET /openapi.json"}


def test_every_request_field_is_on_the_http_page() -> None:
    page = (DOCS / "http.md").read_text(encoding="utf-8")
    for name in CompletionBody.model_fields:
        assert f"`{name}" in page, name


def test_every_status_we_answer_with_is_on_the_http_page() -> None:
    page = (DOCS / "http.md").read_text(encoding="utf-8")
    for status, kind in known_statuses():
        assert any(
            line.startswith("| ") and str(status) in line and f"`{kind}`" in line
            for line in page.splitlines()
        ), f"{status} {kind}"
