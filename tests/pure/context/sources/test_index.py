import os
from pathlib import Path

import pytest

from halfline.context.sources import index as index_module
from halfline.context.sources.found import Found, RankedSources
from halfline.context.sources.index import WorkspaceIndex, index_of
from halfline.context.sources.workspace import ImportedDefinitions, SimilarPieces
from halfline.errors import BadSettings
from halfline.request import Document

FILES = {
    "shop/basket.py": "class Basket:\n    def total_price(self):\n        return 0\n",
    "shop/__init__.py": "VERSION = 1\n",
    "other/basket_test.py": "def total_price():\n    return 'not imported'\n",
    "till.py": "def checkout_receipt(customer, payment):\n    return customer.wallet.pay(payment)\n",
}


@pytest.fixture
def index(tmp_path: Path) -> WorkspaceIndex:
    for path, text in FILES.items():
        (tmp_path / "code" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / path).write_text(text)
    made = index_of(tmp_path / "code", tmp_path / "data")
    made.update()
    return made


def around(index: WorkspaceIndex, document: Document, num_tokens: int = 500) -> list[Found]:
    sources = RankedSources([ImportedDefinitions(index), SimilarPieces(index)], num_tokens)
    return sources.find(document, None)


def change(index: WorkspaceIndex, path: str, text: str) -> None:
    file = index.root / path
    file.write_text(text)
    os.utime(file, ns=(1, file.stat().st_mtime_ns + 1_000_000))


def test_an_update_reads_what_changed_and_forgets_what_is_gone(index: WorkspaceIndex) -> None:
    change(index, "till.py", "def renamed_function():\n    pass\n")
    (index.root / "shop/basket.py").unlink()
    updated = index.update()
    assert (updated.num_read, updated.num_unchanged, updated.num_forgotten) == (1, 2, 1)
    assert index.defining(["renamed_function"]) and not index.defining(["checkout_receipt", "Basket"])
    assert index.using(["renamed_function"]) and not index.using(["checkout_receipt"])
    assert index.num_files() == 3


def test_a_file_that_begins_to_hold_a_secret_is_forgotten(index: WorkspaceIndex) -> None:
    change(index, "till.py", "KEY = 'AKIAABCDEFGHIJKLMNOP'\ndef checkout_receipt(): pass\n")
    assert index.update().num_refused == 1
    assert index.defining(["checkout_receipt"]) == []


def test_a_file_that_changed_since_is_not_quoted(index: WorkspaceIndex) -> None:
    (place,) = index.defining(["checkout_receipt"])
    assert index.text(place) == FILES["till.py"]
    change(index, "till.py", "# something else\n" + FILES["till.py"])
    assert index.text(place) is None


def test_an_index_of_another_format_is_made_anew(index: WorkspaceIndex) -> None:
    with index._connected() as database:
        database.execute("pragma user_version = 99")
    assert not index.exists
    assert index.update().num_read == len(FILES)


@pytest.mark.parametrize("damage", [b"no database" * 500, b""], ids=["no database", "empty"])
def test_a_damaged_index_is_made_anew(index: WorkspaceIndex, damage: bytes) -> None:
    index._file.write_bytes(damage)
    assert not index.exists
    assert index.update().num_read == len(FILES)
    assert index.exists and index.defining(["checkout_receipt"])


def test_damage_further_back_is_mended_too(index: WorkspaceIndex) -> None:
    with index._file.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xaa" * (index._file.stat().st_size - 4096))
    for path in FILES:
        change(index, path, FILES[path])
    assert index.update().num_read == len(FILES)
    assert index.defining(["checkout_receipt"])


def test_one_update_at_a_time(index: WorkspaceIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_PATIENCE_S", 0.0)
    with index._alone(), pytest.raises(BadSettings, match="being read by another process"):
        index.update()
    assert index.update().num_unchanged == len(FILES)


def test_a_folder_that_went_away_is_not_forgotten(index: WorkspaceIndex) -> None:
    index.root.rename(index.root.with_name("elsewhere"))
    with pytest.raises(BadSettings, match="cannot be read"):
        index.update()
    assert index.num_files() == len(FILES)


def test_where_the_index_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    with pytest.raises(BadSettings, match="cannot be written"):
        index_of(tmp_path, tmp_path / "data").update()


def test_lines_are_counted_as_grammars_do(index: WorkspaceIndex) -> None:
    change(index, "till.py", "import os\n\x0c\ndef one():\n    pass\n\x0c\ndef two():\n    return '\u2028'\n")
    index.update()
    (place,) = index.defining(["two"])
    assert index.text(place) == "def two():\n    return '\u2028'\n"


def test_imports_lead_to_definitions_and_the_reason_says_how(index: WorkspaceIndex) -> None:
    text = "from shop.basket import Basket\n\nbasket = Basket()\nprint(basket.total_price("
    found = around(index, Document(text, ")\n", "main.py"))
    assert [each.part.path for each in found][-1] == "shop/basket.py"
    assert "other/basket_test.py" not in [each.part.path for each in found if "imported" in each.reason]
    assert found[-1].part.text == FILES["shop/basket.py"]
    assert "Basket" in found[-1].reason and "shop.basket" in found[-1].reason


def test_pieces_that_are_alike_are_found_without_imports(index: WorkspaceIndex) -> None:
    text = "def other_receipt(customer, payment, wallet):\n    customer."
    (found,) = around(index, Document(text, "", None))
    assert found.part.path == "till.py"
    assert "3 names in common" in found.reason


def test_a_document_is_not_its_own_context(index: WorkspaceIndex) -> None:
    for path in ("till.py", str(index.root / "till.py"), "./till.py"):
        document = Document("def checkout_receipt(customer, payment):\n    customer.wallet", "", path)
        assert around(index, document) == []


def test_what_is_found_fits_its_room(index: WorkspaceIndex) -> None:
    document = Document("from shop.basket import Basket\nbasket.total_price(customer, payment", "", "main.py")
    assert around(index, document, 5) == []


def test_an_index_that_cannot_be_read_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"no database" * 100)
    index = WorkspaceIndex(tmp_path, tmp_path / "broken")
    assert around(index, Document("import some_name\nsome_name", "", "a.py")) == []


@pytest.mark.parametrize("name", ['quo"te', "naïve", "汉字名", "OR", "NEAR", "a_b_c"])
def test_any_name_can_be_asked_for(index: WorkspaceIndex, name: str) -> None:
    index.using([name])
    index.defining([name])
