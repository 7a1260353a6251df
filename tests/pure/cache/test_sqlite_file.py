"""A SQLite file that several may open."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from halfline.cache.sqlite_file import opened


def test_whoever_opens_a_new_file_at_the_same_time_has_it(tmp_path: Path) -> None:
    schema = "create table if not exists answers (x); pragma user_version = 3;"
    for number in range(30):
        start = threading.Barrier(4)

        def open_it(path: Path = tmp_path / f"{number}.sqlite", start: threading.Barrier = start) -> None:
            start.wait(10)
            opened(path, schema, 3, 10.0).close()

        with ThreadPoolExecutor(4) as pool:
            for each in [pool.submit(open_it) for _ in range(4)]:
                each.result()
