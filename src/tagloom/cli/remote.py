"""``tagloom tag http://host:8080/pos``: a model on a server in the place of a file.

It answers what `tagloom tag` asks of a tagger. The token, if the server needs one, is in the
environment variable TAGLOOM_TOKEN, where other users of the machine do not see it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.cli.running import on_close
from tagloom.models.taggers import Labelling, PredictedSpan
from tagloom.sequences import Sentence
from tagloom.web.client import Client


class RemoteTagger:
    """A tagger on a server.

    Parameters
    ----------
    url : str
        ``http://host:8080/name``; without a name the first model of the server.
    """

    def __init__(self, url: str) -> None:
        self._client = Client(url, token=os.environ.get("TAGLOOM_TOKEN"))
        on_close(self._client.close)
        name = self._client.model or self._client.models()[0]["name"]
        about = self._client.model_info(name)
        self._client.model = name
        self._label_list: list[str] = about["labels"]
        self.labels_: npt.NDArray[Any] = np.array(self._label_list, dtype=object)
        self.training_: dict[str, Any] = about["description"]["training"]
        self.scheme_: str | None = about.get("scheme")
        self.reads_only_tokens: bool = about["reads_only_tokens"]
        self._tokenizer = None
        self.tokenizer_ = RemoteTokenizer(self._client)

    def _ask(self, X: Sequence[Any], **options: Any) -> list[dict[str, Any]]:
        """Return the answers to requests of a bounded number of tokens."""
        rows = [self._row(sentence) for sentence in X]
        return [*self._client.requests(rows, **options)]

    def _row(self, sentence: Any) -> Any:
        if self.reads_only_tokens or not isinstance(sentence, Sentence):
            return list(getattr(sentence, "tokens", sentence))
        return {"tokens": sentence.tokens, "columns": sentence.columns}

    def predict(self, X: Sequence[Any], n_threads: int | None = None) -> list[list[str]]:
        """Find the best labels."""
        return [row for answer in self._ask(X) for row in answer["labels"]]

    def predict_with_probs(
        self, X: Sequence[Any], n_threads: int | None = None
    ) -> tuple[list[list[str]], list[list[float]]]:
        """Find the best labels and their probabilities."""
        answers = self._ask(X, probs="top")
        labels = [row for answer in answers for row in answer["labels"]]
        return labels, [row for answer in answers for row in answer["probs"]]

    def predict_marginals(
        self, X: Sequence[Any], n_threads: int | None = None
    ) -> list[npt.NDArray[np.float64]]:
        """Compute the probabilities of all labels."""
        Y = len(self.labels_)
        answers = self._ask(X, probs="all")
        return [np.array(row).reshape(-1, Y) for answer in answers for row in answer["probs"]]

    def predict_nbest(
        self, X: Sequence[Any], n: int, n_threads: int | None = None
    ) -> list[list[Labelling]]:
        """Find the n best labellings; their scores are not sent."""
        return [
            [Labelling(x["labels"], x["prob"], float("nan")) for x in row]
            for answer in self._ask(X, nbest=n)
            for row in answer["nbest"]
        ]

    def predict_spans(
        self, X: Sequence[Any], n_threads: int | None = None
    ) -> list[list[PredictedSpan]]:
        """Find spans and their probabilities."""
        return [
            [PredictedSpan(s["label"], s["start"], s["end"], s["prob"]) for s in row]
            for answer in self._ask(X, spans=True)
            for row in answer["spans"]
        ]


class RemoteTokenizer:
    """The tokenizer of a model on a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def split(self, text: str) -> list[Sentence]:
        """Split a text into sentences."""
        if not text.strip():
            return []
        return [
            Sentence(
                [token["text"] for token in sentence["tokens"]],
                text=text,
                offsets=[(token["start"], token["end"]) for token in sentence["tokens"]],
            )
            for sentence in self._client.tag_texts([text])[0]["sentences"]
        ]
