"""Random Marian models, written as Hugging Face folders and as OPUS-MT packages, without transformers or Marian."""

import io
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import yaml
from safetensors.numpy import save_file

ENGLISH = [
    "two",
    "three",
    "men",
    "women",
    "dogs",
    "houses",
    "run",
    "runs",
    "sleep",
    "over",
    "under",
    "the",
    "a",
    "red",
    "green",
    "old",
    "young",
    "wall",
    "street",
    "with",
]
GERMAN = [
    "zwei",
    "drei",
    "Männer",
    "Frauen",
    "Hunde",
    "Häuser",
    "läuft",
    "laufen",
    "schlafen",
    "über",
    "unter",
    "die",
    "ein",
    "rot",
    "grün",
    "alt",
    "Straße",
]
NAMES = [
    "Anna",
    "Berlin",
    "Carla",
    "David",
    "Emma",
    "Frankfurt",
    "Gustav",
    "Hamburg",
    "Ida",
    "Jakob",
    "Karla",
    "London",
    "Maria",
    "Nora",
    "Otto",
    "Paula",
    "Rosa",
    "Simon",
    "Theo",
    "Ulla",
    "Viktor",
    "Wien",
    "Xenia",
    "York",
    "Zoe",
    "Bonn",
    "Celle",
    "Dora",
    "Erik",
    "Felix",
    "Greta",
    "Hanna",
]
"""Words of both languages."""

ATTENTION = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o"}


def sentences(words: list[str], count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(2, 9))) + "." for _ in range(count)]


def train_spm(lines: list[str], size: int, **options: Any) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return written.getvalue()


def pieces_of(proto: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]


@dataclass
class Words:
    """The vocabulary of a package: a SentencePiece model and the tokens of each side."""

    spms: tuple[bytes, bytes]
    source: list[str]
    target: list[str]

    @staticmethod
    def made(
        english: list[str], german: list[str], sizes: tuple[int, int], joint: bool = True, tags: tuple[str, ...] = ()
    ) -> "Words":
        # As OPUS-MT does: a run of characters that a side lacks is one unknown token there, and several here.
        spms = tuple(
            train_spm(lines, size, character_coverage=1.0) for lines, size in zip((english, german), sizes, strict=True)
        )
        first = ["</s>", "<unk>", *tags]
        sides = [pieces_of(spm) for spm in spms]
        if joint:
            both = [*first, *dict.fromkeys([*sides[1], *sides[0]]), "<pad>"]
            return Words(spms, both, both)
        return Words(spms, [*first, *sides[0], "<pad>"], ["</s>", "<unk>", *sides[1], "<pad>"])


@dataclass
class MarianFiles:
    """A random Marian model as transformers names its parts."""

    words: Words
    d_model: int = 24
    d_ff: int = 40
    num_heads: int = 3
    layers: tuple[int, int] = (2, 3)
    activation: str = "swish"
    seed: int = 5
    start: bool = False
    """Whether the row of the pad token has moved off zero, as in a model fine-tuned with transformers."""
    config: dict[str, Any] = field(default_factory=dict)
    aligned: tuple[int, int, str] | None = None
    """The decoder layer and the head that point to a token's copy in the source, and where: written or read."""

    @property
    def is_joint(self) -> bool:
        return self.words.source is self.words.target

    def arrays(self) -> dict[str, np.ndarray]:
        draw = np.random.default_rng(self.seed)
        d, made = self.d_model, {}

        def linear(name: str, rows: int, columns: int) -> None:
            made[f"{name}.weight"] = draw.normal(0, 1.2 / np.sqrt(columns), (rows, columns))
            made[f"{name}.bias"] = draw.normal(0, 0.3, rows)

        def norm(name: str) -> None:
            made[f"{name}.weight"], made[f"{name}.bias"] = draw.normal(1, 0.3, d), draw.normal(0, 0.3, d)

        for side, count in zip(("encoder", "decoder"), self.layers, strict=True):
            for number in range(count):
                layer = f"model.{side}.layers.{number}"
                for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                    for part in ATTENTION:
                        linear(f"{layer}.{attention}.{part}", d, d)
                    norm(f"{layer}.{attention}_layer_norm")
                linear(f"{layer}.fc1", self.d_ff, d)
                linear(f"{layer}.fc2", d, self.d_ff)
                norm(f"{layer}.final_layer_norm")
        sides = {"model.shared": self.words.target} if self.is_joint else {
            "model.encoder.embed_tokens": self.words.source,
            "model.decoder.embed_tokens": self.words.target,
        }  # fmt: skip
        for name, tokens in sides.items():
            matrix = draw.normal(0, d**-0.5, (len(tokens), d))
            if not self.start:
                matrix[tokens.index("<pad>")] = 0.0
            made[f"{name}.weight"] = matrix
        bias = draw.normal(0, 0.5, (1, len(self.words.target)))
        bias[0, 0] += 1.5  # sentences end now and then
        bias[0, self.words.target.index("<pad>")] = 0.0
        made["final_logits_bias"] = bias
        if self.aligned:
            self.align(made, *self.aligned)
        return {name: array.astype(np.float32) for name, array in made.items()}

    def align(self, made: dict[str, np.ndarray], layer: int, head: int, rows: str) -> None:
        """Let a head of 16 dimensions, of 64 in all, point from the decoder's input to its copy, or to what follows.

        A token is a code in 16 dimensions. The first head of the encoder's first layer finds the position before by
        the sinusoids of the highest frequencies, and copies its code to 16 other dimensions. The aligning head
        compares the code of the decoder's input with one of both. No other weights change the residual stream.
        """
        own, before, half = np.arange(8, 24), np.arange(40, 56), 32
        for name in made:
            if "out_proj" in name or "fc2" in name or (name.endswith("bias") and "logits" not in name):
                made[name][:] = 0.0
            elif "layer_norm.weight" in name:
                made[name][:] = 1.0
            elif "shared" in name or "embed_tokens" in name:
                made[name][:, :] = 0.0
                made[name][:, own] = np.random.default_rng(8).choice([-1.0, 1.0], (len(made[name]), len(own)))
                made[name][-1] = 0.0  # <pad>, with which the decoder begins
        shift = "model.encoder.layers.0.self_attn"
        for part in "qkv":
            made[f"{shift}.{part}_proj.weight"][:16] = 0.0
        angle = 10_000.0 ** (-np.arange(8) / half)  # of one position
        for k, (cos, sin) in enumerate(zip(np.cos(angle), np.sin(angle), strict=True)):
            made[f"{shift}.k_proj.weight"][[k, 8 + k], [k, half + k]] = 9.0
            made[f"{shift}.q_proj.weight"][[k, k], [k, half + k]] = 9.0 * cos, -9.0 * sin
            made[f"{shift}.q_proj.weight"][[8 + k, 8 + k], [k, half + k]] = 9.0 * sin, 9.0 * cos
        made[f"{shift}.v_proj.weight"][np.arange(16), own] = 1.0
        made[f"{shift}.out_proj.weight"][before, np.arange(16)] = 1.0
        cross, place = f"model.decoder.layers.{layer}.encoder_attn", 16 * head + np.arange(16)
        for part, read in (("q", own), ("k", before if rows == "written" else own)):
            made[f"{cross}.{part}_proj.weight"][place] = 0.0
            made[f"{cross}.{part}_proj.weight"][place, read] = 3.0

    def hugging_face(
        self, folder: Path, readme: str = "---\nlicense: apache-2.0\n---\n* model: transformer-align\n"
    ) -> Path:
        folder.mkdir(parents=True)
        pad, start = (side.index("<pad>") for side in (self.words.source, self.words.target))
        config = {
            "architectures": ["MarianMTModel"],
            "model_type": "marian",
            "activation_function": self.activation,
            "d_model": self.d_model,
            "encoder_layers": self.layers[0],
            "decoder_layers": self.layers[1],
            **{f"{side}_ffn_dim": self.d_ff for side in ("encoder", "decoder")},
            **{f"{side}_attention_heads": self.num_heads for side in ("encoder", "decoder")},
            "vocab_size": len(self.words.source),
            "decoder_vocab_size": len(self.words.target),
            "share_encoder_decoder_embeddings": self.is_joint,
            "max_position_embeddings": 96,
            "scale_embedding": True,
            "pad_token_id": pad,
            "decoder_start_token_id": start,
            "eos_token_id": 0,
            **self.config,
        }
        ids = {"decoder_start_token_id": start, "pad_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
        (folder / "generation_config.json").write_text(json.dumps({"num_beams": 6, "bad_words_ids": [[start]], **ids}))
        (folder / "config.json").write_text(json.dumps(config))
        languages = {"source_lang": "en", "target_lang": "de", "separate_vocabs": not self.is_joint}
        (folder / "tokenizer_config.json").write_text(json.dumps(languages))
        save_file(self.arrays(), folder / "model.safetensors", metadata={"format": "pt"})
        for name, tokens in (("vocab", self.words.source), ("target_vocab", self.words.target)):
            if name == "vocab" or not self.is_joint:
                ids = {token: number for number, token in enumerate(tokens)}
                (folder / f"{name}.json").write_text(json.dumps(ids), encoding="utf-8")
        for name, proto in zip(("source.spm", "target.spm"), self.words.spms, strict=True):
            (folder / name).write_bytes(proto)
        (folder / "README.md").write_text(readme)
        return folder

    def opus_mt(self, folder: Path, **changes: Any) -> Path:
        """Write the model as Marian does: matrices transposed, vectors as rows, no row for padding."""
        folder.mkdir(parents=True)
        options = {
            "type": "transformer",
            "dim-emb": self.d_model,
            "enc-depth": self.layers[0],
            "dec-depth": self.layers[1],
            "transformer-dim-ffn": self.d_ff,
            "transformer-heads": self.num_heads,
            "transformer-ffn-activation": self.activation,
            "transformer-ffn-depth": 2,
            "transformer-preprocess": "",
            "transformer-postprocess": "dan",
            "transformer-postprocess-top": "",
            "transformer-postprocess-emb": "d",
            "transformer-decoder-autoreg": "self-attention",
            "transformer-no-projection": False,
            "transformer-guided-alignment-layer": "last",
            "transformer-tied-layers": [],
            "right-left": False,
            **changes,
        }
        arrays = self.marian_arrays(options["transformer-preprocess"] == "n")
        text = yaml.safe_dump(options).encode() + b"\0"
        arrays["special:model.yml"] = np.frombuffer(text, np.int8)
        name = "opus.spm.transformer-align.model1.npz"
        np.savez(folder / name, **arrays)
        files = ["both.vocab.yml"] * 2 if self.is_joint else ["src.vocab.yml", "trg.vocab.yml"]
        for file, tokens in zip(files, (self.words.source, self.words.target), strict=True):
            ids = {token: number for number, token in enumerate(tokens[:-1])}
            written = "".join(f"{json.dumps(token, ensure_ascii=False)}: {number}\n" for token, number in ids.items())
            (folder / file).write_text(written, encoding="utf-8")
        decoder = {"models": [name], "vocabs": files, "beam-size": 6, "normalize": 0.6, "word-penalty": 0}
        (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
        for spm, proto in zip(("source.spm", "target.spm"), self.words.spms, strict=True):
            (folder / spm).write_bytes(proto)
        (folder / "LICENSE").write_text("\nAttribution 4.0 International\n\nCreative Commons ...\n")
        return folder

    def marian_arrays(self, pre_norm: bool = False) -> dict[str, np.ndarray]:
        made, suffix = {}, "_pre" if pre_norm else ""
        for name, array in self.arrays().items():
            if name.startswith(("model.shared", "model.encoder.embed", "model.decoder.embed")):
                side = "" if "shared" in name else name.split(".")[1] + "_"
                made[f"{side}Wemb"] = array[:-1]
            elif name == "final_logits_bias":
                made["decoder_ff_logit_out_b"] = array[:, :-1]
            else:
                made |= marian_array(name, array, suffix)
        if pre_norm:
            draw = np.random.default_rng(self.seed + 1)
            for side in ("encoder", "decoder"):
                for part in ("scale", "bias"):
                    made[f"{side}_top_ln_{part}"] = draw.normal(0.5, 0.3, (1, self.d_model)).astype(np.float32)
        return made


def marian_array(name: str, array: np.ndarray, suffix: str) -> dict[str, np.ndarray]:
    _, side, _, number, *rest, kind = name.split(".")
    layer = f"{side}_l{int(number) + 1}"
    if rest[-1].endswith("layer_norm"):
        where = {
            "self_attn_layer_norm": "self_Wo",
            "encoder_attn_layer_norm": "context_Wo",
            "final_layer_norm": "ffn_ffn",
        }
        part = "scale" if kind == "weight" else "bias"
        return {f"{layer}_{where[rest[0]]}_ln_{part}{suffix}": array[None]}
    letter = "W" if kind == "weight" else "b"
    value = array.T if kind == "weight" else array[None]
    if rest[0] in ("fc1", "fc2"):
        return {f"{layer}_ffn_{letter}{rest[0][-1]}": value}
    block = "self" if rest[0] == "self_attn" else "context"
    return {f"{layer}_{block}_{letter}{ATTENTION[rest[1]]}": value}
