"""`dragoman translate --shards`: which options go with it, and which do not."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.translate_asked import Asked


@dataclass(frozen=True)
class Shards:
    """What is asked of many files at once."""

    pattern: str | None
    out: Path | None
    workers: int | None
    index: str | None
    ray: bool

    def refuse_mistakes(self, asked: Asked) -> None:
        """One command does one thing."""
        own = {"--out": self.out, "--workers": self.workers, "--shard-index": self.index, "--ray": self.ray or None}
        if self.pattern is None:
            alone = [option for option, value in own.items() if value is not None]
            if alone:
                raise ValueError(f"{alone[0]} is for many files: name them with --shards 'in/*.parquet'")
            return
        if self.out is None:
            raise ValueError("--shards needs a folder to write to: give --out FOLDER")
        others = {
            "a text": asked.texts or None,
            "--input": asked.source,
            "--output": asked.output,
            "--format": asked.format,
            "--nbest": asked.nbest,
            "--scores": asked.scores or None,
            "--alignment": asked.alignment or None,
            "--prefix": asked.prefix,
        }
        beside = [option for option, value in others.items() if value is not None]
        if beside:
            quotes = "; put the pattern in quotes, as in --shards 'in/*.parquet'" if asked.texts else ""
            raise ValueError(f"--shards and {beside[0]} do not go together: take one of them{quotes}")

    def carry_out(self, asked: Asked) -> None:
        """Every file, each into one of the same name."""
        from dragoman.cli.translate_shards import translate_shards

        assert self.pattern is not None
        assert self.out is not None
        translate_shards(
            asked.folder,
            self.pattern,
            self.out,
            self.workers,
            self.index,
            self.ray,
            asked.columns.text,
            asked.columns.into,
            asked.beam,
            asked.threads,
            asked.engine_name,
            asked.compute_type,
            asked.split,
            asked.protect,
        )
