"""Recurrent encoder-decoder models, with and without attention."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from dragoman.attention import mask
from dragoman.layers.dropout import Dropout
from dragoman.layers.embedding import Projection, token_table
from dragoman.layers.initialise import xavier
from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent_attention import Visible
from dragoman.models.recurrent_decoder import EncodedSource, RecurrentState, build_decoder
from dragoman.models.seq2seq import Logits, Seq2Seq, Source
from dragoman.text.vocab import PAD


class RecurrentEncoder(nn.Module):
    """The source embedding and recurrent layers, unidirectional or bidirectional.

    Sequences are packed, so no layer reads padding. Each layer is a separate module, not a multi-layer torch module,
    because cuDNN's dropout between layers has a random state that a seed does not reset. If the source is read in
    reverse, the vectors still stand at the positions of their tokens: global attention does not see the order.
    """

    def __init__(self, config: RecurrentConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embedding = tokens
        layer = {"gru": nn.GRU, "lstm": nn.LSTM, "tanh": nn.RNN}[config.cell]
        widths = [config.d_embedding] + [config.d_model] * (config.num_layers - 1)
        d_direction = config.d_model // 2 if config.bidirectional else config.d_model
        self.layers = nn.ModuleList(layer(width, d_direction, bidirectional=config.bidirectional) for width in widths)
        self.dropout = Dropout(config.dropout)
        self.is_reversed = config.reverse_source

    def forward(self, source: Source, visible: Visible) -> EncodedSource:
        lengths = visible.sum(dim=(1, 2, 3)).cpu()
        order = reversed_order(source) if self.is_reversed else None
        embedded = self.embedding(source if order is None else source.gather(1, order))
        x = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        final: list[tuple[Tensor, ...]] = []
        for layer in self.layers:
            x, last = layer(self._dropped(x))
            parts = last if isinstance(layer, nn.LSTM) else (last,)
            final.append(tuple(part.transpose(0, 1).flatten(1) for part in parts))  # both directions side by side
        hidden, _ = pad_packed_sequence(x, batch_first=True, total_length=source.shape[1])
        if order is not None:  # which is its own inverse
            hidden = hidden.gather(1, order[..., None].expand_as(hidden))
        return EncodedSource(hidden, visible, tuple(final))

    def _dropped(self, x: PackedSequence) -> PackedSequence:
        return PackedSequence(self.dropout(x.data), x.batch_sizes, x.sorted_indices, x.unsorted_indices)


def reversed_order(source: Source) -> Int[Tensor, "batch source"]:
    """Return the position of the token to read at each step: from the last before EOS to the first, then the rest."""
    num_words = (source != PAD).sum(dim=1, keepdim=True) - 1
    position = torch.arange(source.shape[1], device=source.device).expand_as(source)
    return torch.where(position < num_words, num_words - 1 - position, position)


class Recurrent(Seq2Seq[RecurrentState, RecurrentState]):
    """A recurrent encoder-decoder: an encoder, one of four decoders, and the output projection."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = config.target_vocabulary
        source = token_table(config.source_vocabulary, config.d_embedding)
        target = source if config.tie == "all" else token_table(config.target_vocabulary, config.d_embedding)
        self.encoder = RecurrentEncoder(config, source)
        self.embedding = target
        self.dropout = Dropout(config.dropout)
        self.decoder = build_decoder(config)
        d_output = config.d_embedding if config.context in ("every", "bahdanau") else config.d_model  # maxout or not
        output = token_table(config.target_vocabulary, d_output) if config.tie == "none" else target
        self.projection = Projection(output)
        initialise(self)

    def encode(self, source: Source) -> RecurrentState:
        return self.decoder.remember(self.encoder(source, mask.padding(source, PAD)))

    def start(self, memory: RecurrentState) -> RecurrentState:
        return memory  # what the encoder left is the decoder's first state

    def step(self, tokens: Int[Tensor, " rows"], state: RecurrentState) -> tuple[Logits, RecurrentState]:
        features, state = self.decoder(self._embed(tokens), state)
        logits: Tensor = self.projection(self._read_out(features))
        return logits, state

    def hidden(
        self, memory: RecurrentState, target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_hidden"]:
        state, steps = memory, []
        for embedded in self._embed(target).unbind(1):
            features, state = self.decoder(embedded, state)
            steps.append(features)
        return self._read_out(torch.stack(steps, dim=1))

    def _embed(self, tokens: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape d_embedding"]:
        embedded: Tensor = self.dropout(self.embedding(tokens))
        return embedded

    def _read_out(self, features: Float[Tensor, "*shape d_features"]) -> Float[Tensor, "*shape d_hidden"]:
        hidden: Tensor = self.dropout(self.decoder.readout(features))
        return hidden


def initialise(model: Recurrent) -> None:
    """Initialise a recurrent model; all decoders are initialised alike, although their papers differ.

    Linear layers are Xavier-uniform with zero biases, as in the Transformer. In the cells each gate is a separate
    matrix: Xavier for inputs, orthogonal for states, so that a signal keeps its norm over many steps. Biases are zero,
    but 1 for the forget gate of an LSTM (Jozefowicz et al., 2015).
    """
    xavier(model)
    for part in model.modules():
        if isinstance(part, nn.RNNBase | nn.RNNCellBase):
            for name, parameter in part.named_parameters():
                _initialise_gates(name, parameter, model.config.num_gates)


def _initialise_gates(name: str, parameter: nn.Parameter, num_gates: int) -> None:
    gates = parameter.data.chunk(num_gates)
    for gate in gates:
        if name.startswith("weight_ih"):
            nn.init.xavier_uniform_(gate)
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(gate)
        else:
            nn.init.zeros_(gate)
    if num_gates == 4 and name.startswith("bias_ih"):  # torch adds two biases: one of them is enough
        nn.init.ones_(gates[1])
