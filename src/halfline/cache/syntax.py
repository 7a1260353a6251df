"""Guesses what comes at a cursor from what came in a function that differs in its variables' names alone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from halfline.cache.guessing import Cursor
from halfline.cache.scope import Scope, scope_at
from halfline.cache.store import Store
from halfline.document.syntax_tree import grammar_for, has_grammars
from halfline.engine.speculation.draft import ProposalSource
from halfline.errors import MissingExtra


class SyntaxTier:
    """Raises MissingExtra without the extra `syntax`."""

    source: ProposalSource = "syntax"

    def __init__(self, store: Store) -> None:
        if not has_grammars():
            raise MissingExtra("guessing from syntax trees", "syntax")
        self._store = store

    def look(self, cursor: Cursor) -> "SyntaxLook | None":
        grammar = None if cursor.path is None else grammar_for(cursor.path)
        scope = None if grammar is None else scope_at(cursor.before, cursor.behind, grammar)
        return None if scope is None else SyntaxLook(self._store, scope, _key(cursor.tenant, scope))


@dataclass(frozen=True, slots=True)
class SyntaxLook:
    store: Store
    scope: Scope
    key: bytes

    def guess(self) -> str | None:
        data = self.store.get(self.key, "syntax")
        if data is None:
            return None
        pieces: Sequence[str | int] = json.loads(data)
        return self.scope.specialised(pieces)

    def learn(self, text: str) -> None:
        pieces = self.scope.generalised(text)
        if pieces is not None:
            self.store.put(self.key, json.dumps(pieces).encode())


def _key(tenant: str, scope: Scope) -> bytes:
    digest = blake2b(b"syntax", digest_size=32)
    for part in (tenant.encode("utf-8", "surrogatepass"), scope.grammar.name.encode(), scope.shape):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()
