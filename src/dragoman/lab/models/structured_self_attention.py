"""Structured self-attention of Lin et al. (2017): a sentence as a matrix, read by several rows of weights.

A = softmax(W_s2 tanh(W_s1 H^T))        (6)   r rows of weights over the n words
M = A H                                 (7)   r sums of the n states, the sentence embedding
P = |A A^T - I|_F^2                     (8)   the penalty for rows that look alike, or at many words
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention import mask
from dragoman.attention.attend import masked_softmax
from dragoman.attention.tap import AttentionVectors, Seam
from dragoman.text.vocab import PAD

States = Float[Tensor, "batch n d_state"]
Annotation = Float[Tensor, "batch r n"]


class SentenceAttention(Seam):
    """Compute A and M from the states H. The rows of W_s2 are r learned queries, the same for every sentence.

    It has no use for `Attend`, whose fused kernels return no weights: the penalty needs them.
    """

    def __init__(self, d_state: int, d_a: int, r: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_state, d_a, bias=False)  # W_s1
        self.queries = nn.Linear(d_a, r, bias=False)  # W_s2

    def forward(
        self, states: States, visible: Bool[Tensor, "batch 1 1 n"]
    ) -> tuple[Float[Tensor, "batch r d_state"], Annotation]:
        """Return the sentence embedding M and the weights A."""
        key, value = torch.tanh(self.hidden(states))[:, None], states[:, None]  # one head with r queries
        query = self.queries.weight.expand(len(states), 1, -1, -1)
        weights = masked_softmax(torch.matmul(query, key.transpose(-2, -1)), visible)  # (6)
        tap = self.tap()
        if tap is not None:
            weights = tap.see(self, weights, visible, AttentionVectors(query, key, value))
        return torch.matmul(weights, value)[:, 0], weights[:, 0]  # (7)


class SentenceClassifier(nn.Module):
    """A bidirectional LSTM, structured self-attention over its states, and a classifier of one hidden layer.

    `d_direction` is u in the paper, so a state has 2u numbers; `d_a` and `r` are those of the paper.
    """

    def __init__(
        self, vocabulary: int, num_classes: int, d_embedding: int, d_direction: int, d_a: int, r: int, d_hidden: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_embedding, padding_idx=PAD)
        self.lstm = nn.LSTM(d_embedding, d_direction, batch_first=True, bidirectional=True)
        self.self_attention = SentenceAttention(2 * d_direction, d_a, r)
        self.hidden = nn.Linear(r * 2 * d_direction, d_hidden)
        self.output = nn.Linear(d_hidden, num_classes)

    def forward(self, tokens: Int[Tensor, "batch n"]) -> tuple[Float[Tensor, "batch classes"], Annotation]:
        """Return the logits of the classes, and the weights for the penalty."""
        visible = mask.padding(tokens, PAD)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), visible.sum(dim=(1, 2, 3)).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=tokens.shape[1]
        )
        embedding, annotation = self.self_attention(states, visible)
        logits: Tensor = self.output(F.relu(self.hidden(embedding.flatten(1))))
        return logits, annotation

    def loss(
        self, tokens: Int[Tensor, "batch n"], classes: Int[Tensor, " batch"], coefficient: float
    ) -> Float[Tensor, ""]:
        """Return the mean cross entropy plus the mean penalty times its coefficient."""
        logits, annotation = self(tokens)
        return F.cross_entropy(logits, classes) + coefficient * penalty(annotation).mean()


def penalty(annotation: Annotation) -> Float[Tensor, " batch"]:
    """Return P of each sentence: the squared Frobenius norm of A A^T - I."""
    overlaps = torch.matmul(annotation, annotation.transpose(1, 2))
    return (overlaps - torch.eye(overlaps.shape[1], device=overlaps.device)).square().sum(dim=(1, 2))  # (8)
