"""`dragoman align`: print the word alignment of two files, and search for the best alignment head."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from dragoman.cli.command import (
    PAIRS_HELP,
    FieldsOption,
    OptionalModelArgument,
    ToOption,
    check_map_options,
    command_of,
    model_folder,
    open_model,
    option,
    output_option,
)
from dragoman.cli.output_files import PICTURES, STDOUT, check_different, check_output_file, write_output
from dragoman.decoding.checks import check_choice

if TYPE_CHECKING:
    from dragoman.alignment.links import Links
    from dragoman.alignment.moses import Gold
    from dragoman.alignment.symmetrise import Symmetrisation
    from dragoman.bundle import Bundle
    from dragoman.bundle.alignment_head import AlignmentHead

_head, _gold = partial(option, panel="Which head of MODEL"), partial(option, panel="Gold links")
_both = partial(option, panel="Both directions")


@dataclass(frozen=True)
class AlignRequest:
    """Print the word alignment of two files, line by line.

    Each output line has the links of one sentence pair in Moses format: 0-1 links the first source word to the second
    target word. Words are split at white space. Without MODEL, the links are learned from the given pairs alone, in
    both directions, and symmetrised: this needs thousands of pairs, but no torch. With MODEL, they follow the
    cross-attention of its stored alignment head under teacher forcing; if no head is stored, the mean of the
    second-last layer is used as a guess. With --search the command prints a ranking of all heads, and writes links only
    to --output.

        dragoman align --source a.en --target a.de > a.links

        dragoman align demo --source a.en --target a.de > a.links

        dragoman align --pairs memory.tmx > memory.links

        dragoman align run/ --source dev.en --target dev.de --gold dev.gold --search --store

        dragoman align en-de/ --source a.en --target a.de --reverse de-en/ --symmetrise intersection
    """

    model: OptionalModelArgument = None
    source: Annotated[str | None, option("FILE", "Source sentences, one per line; - for standard input.")] = None
    target: Annotated[str | None, option("FILE", "Translations of --source, one per line; - for stdin.")] = None
    pairs: Annotated[str | None, option("FILE", f"{PAIRS_HELP}.")] = None
    fields: FieldsOption = None
    to: ToOption = None
    output: Annotated[Path | None, output_option("Write the links to FILE instead of standard output.")] = None
    reverse: Annotated[str | None, _both("MODEL", "Target-to-source model, to symmetrise the links with.")] = None
    symmetrise: Annotated[
        str | None, _both("METHOD", "Symmetrisation: intersection, union, grow-diag or grow-diag-final-and (default).")
    ] = None
    gold: Annotated[str | None, _gold("FILE", "Gold links, words counted from 1: 1-1 is sure, 2p3 possible.")] = None
    swap_gold: Annotated[bool, _gold(None, "Expect the target word first in each --gold link.", "--swap-gold")] = False
    search: Annotated[bool, _head(None, "Rank heads by AER on --gold or agreement with --reverse.", "--search")] = False
    store: Annotated[bool, _head(None, "Store the head from --search or --layer in the model.", "--store")] = False
    grid: Annotated[Path | None, _head("FILE", "Plot each head's AER from --search as .png, .svg or .pdf.")] = None
    layer: Annotated[int | None, _head("N", "Decoder layer to align with, counted from 0; -1 is the last.")] = None
    head: Annotated[str | None, _head("N|mean", "Head to align with, counted from 0; mean averages all heads.")] = None
    rows: Annotated[str | None, _head("written|read", "Use attention of the step that writes or reads a token.")] = None
    measure: Annotated[str | None, _head("attention|norm", "Use attention weights or norms of weighted values.")] = None

    def run(self) -> None:
        """Align the lines, then print, score and store the results as the options require."""
        self.check()
        sources, targets, gold = self.read()
        if self.model is None:
            self.write(self.learn(sources, targets), sources, targets, gold)
            return
        from dragoman.bundle import refuse_demo

        bundles = self.open_models(self.model)
        if self.store:
            for bundle in bundles:
                refuse_demo(bundle.folder)
        if find_spec("torch") is None:
            self.write({"model": self.align_by_export(bundles[0], sources, targets)}, sources, targets, gold)
            return
        from dragoman.cli.align_run import AlignRun  # imports torch, which takes seconds: after all checks

        run = AlignRun(bundles, sources, targets, gold)
        named = [self.named_head(run.names[0]), ()][: len(bundles)]  # the other direction aligns by its own
        heads = run.search_heads(self.grid, Path(self.gold or "").name) if self.search else named
        self.write(run.links(heads, self.method), sources, targets, gold)
        if self.store:
            run.store(heads)

    @property
    def method(self) -> "Symmetrisation":
        """The symmetrisation of --symmetrise, or the default."""
        return cast("Symmetrisation", self.symmetrise or "grow-diag-final-and")

    def learn(self, sources: list[str], targets: list[str]) -> "dict[str, list[Links]]":
        """Return the links of `forward`, `backward` and the symmetrisation, learned from the pairs alone."""
        from dragoman.alignment.learned_links import learn_both_directions
        from dragoman.alignment.symmetrise import symmetrise_all
        from dragoman.cli.progress import show_progress

        with show_progress() as progress:
            forward, backward = learn_both_directions(sources, targets, progress)
            symmetrised = symmetrise_all(forward, backward, self.method, progress)
        return {"forward": forward, "backward": backward, self.method: symmetrised}

    def align_by_export(self, bundle: "Bundle", sources: list[str], targets: list[str]) -> "list[Links]":
        """Return the links by the stored alignment head of one model, which needs no torch."""
        from dragoman.alignment.export_aligner import ExportAligner, find_export_obstacle
        from dragoman.decoding.ctranslate2_engine import CTranslate2Engine

        options = {"search": self.search or None, "layer": self.layer, "reverse": self.reverse}
        others = [name for name, value in options.items() if value is not None]
        if others:
            raise ValueError(f"--{others[0]} needs torch: pip install 'dragoman[train]'")
        engine = CTranslate2Engine.load(bundle)
        if reason := find_export_obstacle(bundle, engine):
            raise ValueError(f"{reason}; torch aligns: pip install 'dragoman[train]'")
        return ExportAligner(engine, bundle.vocab).links_of(sources, targets)

    def write(
        self, links: "dict[str, list[Links]]", sources: list[str], targets: list[str], gold: "list[Gold] | None"
    ) -> None:
        """Write the last of the links, and print the scores of all if there are gold links."""
        from dragoman.alignment.moses import to_moses
        from dragoman.cli.align_scores import print_scores

        if self.output or not self.search:
            write_output(self.output or STDOUT, "".join(f"{to_moses(of_pair)}\n" for of_pair in [*links.values()][-1]))
        if gold is not None:
            print_scores(links, gold, sources, targets)

    def check(self) -> None:
        """Raise ValueError for options that contradict each other, before reading files or models."""
        check_map_options(None, self.head, self.rows, self.measure)
        check_choice("--symmetrise", self.symmetrise, ("intersection", "union", "grow-diag", "grow-diag-final-and"))
        of_model = ("to", "search", "store", "grid", "layer", "head", "rows", "measure", "reverse")
        unused = [f"--{name}" for name in of_model if not any(getattr(self, name) is each for each in (None, False))]
        if self.model is None and unused:
            raise ValueError(f"{unused[0]} needs a model: give MODEL, or leave out {' and '.join(unused)}")
        if self.layer is None and not self.head == self.rows == self.measure is None:
            raise ValueError("--head, --rows and --measure need a layer: add --layer, as in --layer 1 --head mean")
        if self.search and self.layer is not None:
            raise ValueError("--search and --layer cannot be combined: leave out --search, or --layer and --head")
        if self.search and self.gold is None and self.reverse is None:
            raise ValueError("--search needs a criterion to rank heads by: add --gold FILE or --reverse MODEL")
        if self.grid is not None and not (self.search and self.gold is not None):
            raise ValueError("--grid needs a search by gold links: add --search and --gold FILE")
        if self.store and not self.search and self.layer is None:
            raise ValueError("--store has no head to store: add --search, or --layer and --head")
        if self.symmetrise is not None and self.model is not None and self.reverse is None:
            raise ValueError("--symmetrise needs a model of the opposite direction: add --reverse MODEL")
        inputs = [name for name in (self.source, self.target, self.pairs, self.gold) if name is not None]
        if self.output is not None:
            check_output_file("--output", self.output, inputs=inputs)
        if self.grid is not None:
            check_output_file("--grid", self.grid, PICTURES, inputs)
        check_different(("--output", self.output), ("--grid", self.grid))
        if inputs.count("-") > 1:
            raise ValueError("standard input can be read only once: give - to one of --source, --target and --gold")

    def read(self) -> "tuple[list[str], list[str], list[Gold] | None]":
        """Read sources, targets and gold links, and check that their line counts match."""
        from dragoman.alignment.moses import read_gold_of
        from dragoman.evaluation.text_files import read_sides, read_text, require_same_length

        sources, targets = read_sides(self.source, self.target, self.pairs, self.fields)
        if self.gold is None:
            return sources.lines, targets.lines, None
        text = read_text(self.gold)
        require_same_length(sources, text)
        gold = read_gold_of(text.lines, sources.lines, targets.lines, self.gold, swap=self.swap_gold)
        return sources.lines, targets.lines, gold

    def open_models(self, model: str) -> "list[Bundle]":
        """Open MODEL and, if given, the model of --reverse, which translates into the source language of MODEL."""
        from dragoman.bundle import open_bundle

        forward = open_model(model, self.to)
        if self.reverse is None:
            return [forward]
        backward = open_bundle(model_folder(self.reverse))
        backward = backward.to(forward.info.source_language if len(backward.info.targets) > 1 else None)
        there, back = ((each.info.source_language, each.info.target_language) for each in (forward, backward))
        if forward.folder.samefile(backward.folder) or (None not in there + back and there == back):
            way = f" ({there[0]} to {there[1]})" if None not in there else ""
            raise ValueError(f"--reverse {self.reverse} has the same direction as MODEL{way}: give the opposite model")
        return [forward, backward]

    def named_head(self, names: Sequence[str]) -> "tuple[AlignmentHead, ...]":
        """Return the head selected by --layer and --head, or an empty tuple without --layer.

        `names` are the names of the model's cross-attention layers.
        """
        from dragoman.alignment.head_names import pick_head

        if self.layer is None:
            return ()
        head = pick_head(names, self.layer, None if self.head in (None, "mean") else int(str(self.head)))
        changes = {"rows": self.rows, "measure": self.measure}
        return (head.model_copy(update={key: value for key, value in changes.items() if value is not None}),)


align = command_of("align", AlignRequest)
