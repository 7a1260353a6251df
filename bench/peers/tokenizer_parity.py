"""Are our token ids llama.cpp's? Compares them on this Python's standard library and on fuzzed strings.

    python -m bench.peers.tokenizer_parity LLAMA_SERVER MODEL.gguf [--pre qwen2 ...] [--write tests/data]

Starts llama-server, asks its /tokenize with add_special and parse_special false, and prints a row per
pre-tokenizer and corpus; the last line is JSON. `--pre` puts other pre-tokenizers' names over the file's
own, on both sides, with every tenth file. Equality is
expected but for two cases where we follow the models' own tokenizers and llama.cpp does not: digits that
Unicode 16 added, and deepseek-coder's CJK range holding non-ASCII spaces (not counted as different).
`--write` renews the fixture with which tests/server/text checks without llama.cpp.
"""

import argparse
import contextlib
import dataclasses
import gzip
import hashlib
import json
import random
import re
import sys
import sysconfig
from pathlib import Path

import httpx
import numpy as np

from bench.peers.llama_cpp import LlamaServer
from halfline.model.gguf_checkpoint import open_gguf
from halfline.text.pretokenizers import PRE_TOKENIZERS
from halfline.text.tokenizer import Tokenizer

NUM_FUZZED = 5500
# llama.cpp turns these into one control character before it looks for deepseek-coder's CJK range.
SPACES_IN_CJK_RANGE = re.compile("[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
FIXTURE = "tokenizer_parity.json.gz"


def llama_server(binary: Path, model: Path, pre_tokenizer: str) -> LlamaServer:
    override = ("--no-warmup", "--override-kv", f"tokenizer.ggml.pre=str:{pre_tokenizer}")
    return LlamaServer(binary, model, threads=1, context=256, arguments=override)


def peer_ids(client: httpx.Client, text: str) -> list[int]:
    body = {"content": text, "add_special": False, "parse_special": False}
    ids: list[int] = client.post("/tokenize", json=body).raise_for_status().json()["tokens"]
    return ids


def standard_library() -> dict[str, str]:
    """{sha256 of the file: its text} of every UTF-8 source of this Python, its tests included."""
    root = Path(sysconfig.get_path("stdlib"))
    texts = {}
    for path in sorted(root.rglob("*.py")):
        with contextlib.suppress(UnicodeDecodeError):
            data = path.read_bytes()
            if "site-packages" not in path.parts:
                texts[hashlib.sha256(data).hexdigest()] = data.decode()
    return texts


def fuzzed(count: int, seed: int = 17) -> list[str]:
    """Strings of the characters tokenizers disagree about; deterministic."""
    rng = random.Random(seed)
    atoms = (
        *(" ", "  ", "\n", "\n\n", "\r\n", "\r", "\t", "\t\t", "\0", "\x0b", "\x0c", "\x1b", "\x85", "\xa0"),
        *("'s", "'S", "'t", "'re", "'VE", "'ll", "'d", "'", "’s", "'ſ", "don't", "I'm", "foo'"),
        *("0", "7", "42", "2026", "1234567", "3.14", "0xFF", "1e-9", "٣", "२", "Ⅷ", "½", "²", "①", "一二三"),
        *("def", " return", "self", "_", "__init__", "camelCase", "HTTPServer", "λ", "é", "ß", "İ", "ŉ", "K"),
        *(
            "(",
            ")",
            "{}",
            "[]",
            "=>",
            "!=",
            "==",
            "//",
            "#",
            "###",
            '"""',
            "\\n",
            "...",
            "—",
            "«",
            "§",
            "$",
            "€",
        ),
        *(
            "中文",
            "日本語",
            "カタカナ",
            "한국어",
            "한",
            "ไทย",
            "العربية",
            "עברית",
            "हिन्दी",
            "\u200f",
            "\u202e",
        ),
        *("e\u0301", "n\u0303", "a\u0300\u0316", "\u0301", "ﬁ", "ﷺ", "\u200b", "\u200d", "\ufeff", "\u2028"),
        *("😀", "👩‍👩‍👧", "🇩🇪", "👍🏽", "𝔘𝔫𝔦", "𐍈", "\U0001f9ff", "\ue000", "\ufffd", "\uffff", "\U0010ffff"),
        *("<|im_start|>", "<|im_end|>", "<file_sep>", "<|endoftext|>", "<fim_prefix>", "<s>", "▁", "<0x0A>"),
    )
    strings = []
    for number in range(count):
        kind = number % 11
        if kind == 0:
            strings.append("".join(chr(_scalar(rng)) for _ in range(rng.randrange(1, 12))))
        elif kind == 1:
            strings.append(rng.choice(atoms) * rng.randrange(1, 200))
        elif kind == 2:
            run = rng.choice(" \n\t\r") * rng.randrange(1, 400)
            strings.append(rng.choice(atoms) + run + rng.choice(atoms))
        else:
            strings.append("".join(rng.choice(atoms) for _ in range(rng.randrange(1, 16))))
    return strings


def _scalar(rng: random.Random) -> int:
    """A random character, most of them from the lower planes, that Unicode 15 knew or nobody knows."""
    limit = rng.choice((0x80, 0x250, 0x3000, 0x10000, 0x10000))
    code = rng.randrange(limit)
    return code if not 0xD800 <= code < 0xE000 else 0x20


def digest(ids: list[int], size: int) -> str:
    return hashlib.blake2b(np.asarray(ids, np.int32).tobytes(), digest_size=size).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("llama_server", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--pre", nargs="*", default=[], choices=sorted(PRE_TOKENIZERS))
    parser.add_argument("--write", type=Path, help="folder of the fixture to renew")
    options = parser.parse_args()

    vocab = open_gguf(options.model).vocab
    own = vocab.pre_tokenizer
    names = [own, *(name for name in options.pre if name != own)]
    library, strings = standard_library(), fuzzed(NUM_FUZZED)
    report: dict[str, dict[str, int]] = {}
    fixture: dict[str, object] = {"strings": strings}
    print(f"{'pre-tokenizer':20}{'corpus':10}{'texts':>8}{'tokens':>12}{'different':>11}")
    for name in names:
        files = library if name == own else dict(list(library.items())[::10])
        tokenizer = Tokenizer(dataclasses.replace(vocab, pre_tokenizer=name))
        with llama_server(options.llama_server, options.model, name) as client:
            fuzz_ids = [peer_ids(client, text) for text in strings]
            file_ids = {key: peer_ids(client, text) for key, text in files.items()}
        pairs = {
            "fuzzed": [
                (tokenizer.encode(text), ids)
                for text, ids in zip(strings, fuzz_ids, strict=True)
                if not (name == "deepseek-coder" and SPACES_IN_CJK_RANGE.search(text))
            ],
            "stdlib": [(tokenizer.encode(text), file_ids[key]) for key, text in files.items()],
        }
        for corpus, compared in pairs.items():
            row = {
                "texts": len(compared),
                "tokens": sum(len(peer) for _, peer in compared),
                "different": sum(ours != peer for ours, peer in compared),
            }
            report[f"{name}/{corpus}"] = row
            print(f"{name:20}{corpus:10}{row['texts']:8}{row['tokens']:12}{row['different']:11}", flush=True)
        fixture[name] = [digest(ids, 4) for ids in fuzz_ids]
        if name == own:
            fixture["ids"] = fuzz_ids
            fixture["files"] = {key[:16]: digest(ids, 8) for key, ids in file_ids.items()}
    if options.write:
        text = json.dumps(fixture, separators=(",", ":"))
        (options.write / FIXTURE).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(json.dumps({"python": sys.version.split()[0], "compared": report}))
    if any(row["different"] for row in report.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
