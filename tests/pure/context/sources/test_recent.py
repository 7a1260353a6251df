from halfline.context.documents import DocumentKey
from halfline.context.sources.recent import RecentEdits, RecentFiles, RecentlyAlike
from halfline.request import Document

BASKET = (
    "".join(f"filler_{n} = {n}\n" for n in range(100)) + "def total_price(basket, discount):\n    return 1\n"
)
HERE = Document("price = total_price(basket, discount", "", "main.py")


def key(path: str, user: str = "me") -> DocumentKey:
    return DocumentKey("local", user, path)


def seen(*texts: tuple[str, str], max_files: int = 8) -> RecentFiles:
    files = RecentFiles(max_files)
    for path, text in texts:
        files.note(Document(text, "", path), key(path))
    return files


def test_what_is_alike_in_an_open_file_is_found_and_what_is_not_is_not() -> None:
    files = seen(("basket.py", BASKET), ("main.py", "price = total_price(basket, discount\n"))
    (found,) = RecentlyAlike(files).find(HERE, key("main.py"))
    assert found.part.path == "basket.py" and "total_price" in found.part.text
    assert "filler_1 " not in found.part.text
    assert "of its names" in found.reason


def test_the_lines_around_the_latest_edits_are_found_the_latest_first() -> None:
    edited = BASKET.replace("filler_50 = 50", "filler_50 = 51")
    files = seen(
        ("a.py", BASKET), ("b.py", BASKET), ("a.py", edited), ("b.py", BASKET + "new\n"), ("c.py", BASKET)
    )
    first, second = RecentEdits(files).find(HERE, key("main.py"))
    assert (first.part.path, second.part.path) == ("b.py", "a.py") and first.score > second.score
    assert "filler_50 = 51\n" in second.part.text and second.part.text.count("\n") == 17


def test_nobody_sees_another_user_s_files() -> None:
    files = seen(("basket.py", BASKET))
    assert RecentlyAlike(files).find(HERE, key("main.py", "you")) == []
    assert RecentlyAlike(files).find(HERE, None) == []
    assert RecentEdits(files).find(HERE, DocumentKey("other", "me", "main.py")) == []


def test_files_of_users_without_a_name_are_not_remembered() -> None:
    files = RecentFiles(4)
    files.note(Document(BASKET, "", "basket.py"), key("basket.py", ""))
    assert files.others(key("main.py", "")) == []


def test_of_too_many_files_and_users_the_oldest_are_forgotten() -> None:
    files = seen(("a.py", "a"), ("b.py", "b"), ("a.py", "a"), ("c.py", "c"), max_files=2)
    assert [each.path for each in files.others(key("main.py"))] == ["c.py", "a.py"]
    for number in range(40):
        files.note(Document("x", "", "x.py"), key("x.py", f"user{number}"))
    assert files.others(key("main.py")) == []


def test_of_an_enormous_file_what_is_near_the_cursor_is_remembered() -> None:
    files = RecentFiles(2)
    files.note(Document("x\n" * 1_000_000, "y\n" * 1_000_000, "a.py"), key("a.py"))
    (remembered,) = files.others(key("b.py"))
    assert len(remembered.text) == 2 << 15
