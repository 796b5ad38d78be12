"""Translate a file and print sentences per second: one side of bench/translate.py, in a separate process.

    python bench/translate_side.py KIND MODEL FILE THREADS [COMPUTE]

KIND is command, bare, ctranslate2, torch or hf.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOKENS, BATCH = 25, 32
"""Output tokens per sentence and sentences per batch of Hugging Face: as ours, on average."""


def command(model: str, source: Path, threads: int) -> float:
    """Time the whole command, from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--input", str(source), "--output", f"{folder}/target", "--threads", str(threads)]
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "dragoman", "translate", model, *words], check=True)
        return time.perf_counter() - begin


def bare(model: str, source: Path, threads: int) -> float:
    """Time CTranslate2 on subwords, all in one call."""
    import ctranslate2

    from dragoman.bundle import open_bundle
    from dragoman.decoding.ctranslate2_engine import BATCH_TOKENS
    from dragoman.decoding.options import SearchOptions
    from dragoman.export.ctranslate2 import folder_files, weights_file

    bundle = open_bundle(Path(model))
    options = SearchOptions.model_validate(bundle.info.search)
    pieces = [[bundle.vocab.source.piece(i) for i in _ids(bundle, line)[:-1]] for line in _lines(source)]
    with tempfile.TemporaryDirectory() as folder:
        for name, content in folder_files(bundle, weights_file(bundle)).items():
            (Path(folder) / name).write_bytes(content)
        engine = ctranslate2.Translator(folder, inter_threads=threads, intra_threads=1, compute_type="float32")
    begin = time.perf_counter()
    engine.translate_batch(
        pieces,
        beam_size=options.beam_size,
        length_penalty=options.penalty.alpha,
        max_batch_size=BATCH_TOKENS,
        batch_type="tokens",
        max_decoding_length=options.max_length.tokens(max(map(len, pieces))),
    )
    return time.perf_counter() - begin


def engine(name: str, model: str, source: Path, threads: int, compute: str) -> float:
    """Time our translator with one of its engines, loaded and warm."""
    from dragoman.decoding.options import EngineOptions
    from dragoman.translation.translator import Translator

    translator = Translator.load(Path(model), EngineOptions(name, threads, compute))
    lines = _lines(source)
    translator.translate(lines[:2])
    begin = time.perf_counter()
    translator.translate(lines)
    return time.perf_counter() - begin


def hf(source: Path, threads: int) -> float:
    """Time MarianMTModel.generate of the same size, with as many tokens per sentence and random ids."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    sizes = {"encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
    heads = {"encoder_attention_heads": 8, "decoder_attention_heads": 8}
    ends = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1}
    model = MarianMTModel(MarianConfig(vocab_size=8000, d_model=512, **sizes, **heads, **ends)).eval()
    lengths = sorted(max(3, round(len(line.split()) * 1.4)) for line in _lines(source))
    batches = [lengths[start : start + BATCH] for start in range(0, len(lengths), BATCH)]
    begin = time.perf_counter()
    with torch.inference_mode():
        for batch in batches:
            ids = torch.randint(4, 8000, (len(batch), max(batch)))
            mask = torch.arange(max(batch)) < torch.tensor(batch)[:, None]
            kept = {"num_beams": 4, "min_new_tokens": TOKENS, "max_new_tokens": TOKENS}
            model.generate(input_ids=ids, attention_mask=mask.long(), **kept)
    return time.perf_counter() - begin


def _lines(source: Path) -> list[str]:
    return source.read_text(encoding="utf-8").split("\n")[:-1]


def _ids(bundle: "object", line: str) -> list[int]:
    return bundle.vocab.source.encode([line]).ids.tolist()  # type: ignore[attr-defined]


def main() -> None:
    kind, model, source, threads, *compute = sys.argv[1:]
    path, number = Path(source), int(threads)
    if kind == "command":
        taken = command(model, path, number)
    elif kind == "bare":
        taken = bare(model, path, number)
    elif kind == "hf":
        taken = hf(path, number)
    else:
        taken = engine(kind, model, path, number, compute[0])
    print(len(_lines(path)) / taken)


if __name__ == "__main__":
    main()
