"""BLEU as papers before sacreBLEU report it: on text that is tokenised already, compounds split at their hyphens."""

import re
from typing import Final

from sacrebleu.metrics.bleu import BLEU

_HYPHEN: Final = re.compile(rb"(\S)-(\S)")


def split_compounds(line: str) -> str:
    """`rich-text` becomes `rich ##AT##-##AT## text`, byte by byte as the perl of tensor2tensor's get_ende_bleu.sh.

    That perl goes on after what it has matched, so in `a-b-c` the second hyphen stays: its `b` is spent. And it reads
    bytes, so in `a-ö-c` both are split: one byte of ö is left. A number to stand beside published ones needs both.
    """
    return _HYPHEN.sub(rb"\1 ##AT##-##AT## \2", line.encode()).decode()


class CompoundBLEU(BLEU):
    """BLEU of which a compound's parts count as words. Its signature adds `+compounds` to the name of the tokeniser."""

    def __init__(self, tokenize: str, lowercase: bool, references: list[list[str]] | None = None) -> None:
        super().__init__(tokenize=tokenize, lowercase=lowercase, force=True)
        self.tokenizer_signature += "+compounds"
        if references is not None:
            self._ref_cache = self._cache_references(references)

    def _preprocess_segment(self, sent: str) -> str:
        return split_compounds(super()._preprocess_segment(sent))
