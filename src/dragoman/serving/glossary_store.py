"""Glossaries that clients store in the memory of the service: each key sees its own."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from dragoman.serving.config import Limits
from dragoman.serving.errors import ExhaustedQuotaError, InvalidRequestError, UnknownModelError
from dragoman.translation.glossary import Glossary

LanguagePair = tuple[str, str]
"""Source and target language codes, in lower case and without region."""
_NONE: Final[Mapping[str, "StoredGlossary"]] = MappingProxyType({})


@dataclass(frozen=True)
class StoredGlossary:
    """A stored glossary: terms for one or several language pairs."""

    glossary_id: str
    name: str
    dictionaries: Mapping[LanguagePair, Glossary]
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def num_terms(self) -> int:
        """The number of terms in all dictionaries."""
        return sum(len(dictionary.entries) for dictionary in self.dictionaries.values())

    def find(self, pair: LanguagePair) -> Glossary:
        """Return the terms for a language pair; raise UnknownModelError if there are none."""
        if pair not in self.dictionaries:
            known = ", ".join(f"{source} to {target}" for source, target in self.dictionaries) or "none"
            raise UnknownModelError(f"the glossary has no terms from {pair[0]} to {pair[1]}: it has {known}")
        return self.dictionaries[pair]


class GlossaryStore:
    """The stored glossaries of all keys, until the service stops. `owner` is the name of a key; "" without keys."""

    def __init__(self) -> None:
        self._of_owner: dict[str, dict[str, StoredGlossary]] = {}

    def list(self, owner: str) -> list[StoredGlossary]:
        """Return the glossaries of an owner, oldest first."""
        return list(self._of_owner.get(owner, _NONE).values())

    def find(self, owner: str, glossary_id: str) -> StoredGlossary:
        """Return a glossary of an owner; raise UnknownModelError if the owner has none with this id."""
        found = self._of_owner.get(owner, _NONE).get(glossary_id.lower())
        if found is None:
            raise UnknownModelError("no such glossary: list the glossaries; a restart of the service deletes them")
        return found

    def create(
        self, owner: str, name: str, dictionaries: Mapping[LanguagePair, Glossary], limits: Limits
    ) -> StoredGlossary:
        """Store a new glossary and return it; raise ExhaustedQuotaError if the owner has too many."""
        if len(self.list(owner)) >= limits.stored_glossaries:
            raise ExhaustedQuotaError(f"more than {limits.stored_glossaries:,} glossaries: delete one")
        return self.put(owner, StoredGlossary(str(uuid.uuid4()), name, dictionaries), limits)

    def put(self, owner: str, glossary: StoredGlossary, limits: Limits) -> StoredGlossary:
        """Store a glossary in place of the one with its id; raise ExhaustedQuotaError if there are too many terms."""
        others = [one for one in self.list(owner) if one.glossary_id != glossary.glossary_id]
        if sum(one.num_terms for one in others) + glossary.num_terms > limits.stored_terms:
            raise ExhaustedQuotaError(f"more than {limits.stored_terms:,} terms in all glossaries: delete a glossary")
        self._of_owner.setdefault(owner, {})[glossary.glossary_id] = glossary
        return glossary

    def delete(self, owner: str, glossary_id: str) -> None:
        """Delete a glossary; raise UnknownModelError if the owner has none with this id."""
        found = self.find(owner, glossary_id)
        del self._of_owner[owner][found.glossary_id]


def merge_glossaries(glossaries: list[Glossary]) -> Glossary | None:
    """Return one glossary with the terms of several; of a term in several, the first counts."""
    if len(glossaries) == 1:
        return glossaries[0]
    entries: dict[str, tuple[str, str]] = {}
    for glossary in glossaries:
        for source, target in glossary.entries:
            entries.setdefault(" ".join(source.split()), (source, target))
    try:
        return Glossary(tuple(entries.values())) if glossaries else None
    except ValueError as error:
        raise InvalidRequestError(str(error)) from None
