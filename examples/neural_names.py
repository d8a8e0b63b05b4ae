"""Names, by features, by a network, and by both in one model; and why weights start at random.

A linear model sees the spelling of a word and its neighbours: it learns a rare name from a single
example, but every word anew. A network sees vectors, which similar words share, but it needs many
examples to learn them. Their scores can be added before one CRF decides: what the features explain,
the network need not learn.

The second part is exercise 10 of chapter 7 of Eisenstein's textbook (Introduction to Natural
Language Processing): what happens if all weights of a recurrent network start at zero?

Needs torch to train. Run it:

    python examples/neural_names.py
"""

import io
import sys

import tagloom as tl

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("neural_names.py needs torch: pip install 'tagloom[neural]'")


def names():
    """Train the three models on the same few sentences, and compare the names that they find."""
    train, dev, test = tl.datasets.load("english", label="entity")
    # A few hundred sentences: small batches and large learning rates.
    small = {"hidden": 32, "batch_tokens": 128, "max_iterations": 8, "eta": 0.005}
    taggers = {
        "features": tl.CRF(),
        "network": tl.NeuralTagger(features=None, **small),
        "both": tl.NeuralTagger(eta_features=0.3, **small),
    }
    print("Names in the test sentences:\n            F1")
    for name, tagger in taggers.items():
        tagger.fit(train, dev=dev)
        scores = tl.evaluate(test.labels, tagger.predict(test), n_bootstrap=0)
        print(f"  {name:8} {100 * scores.f1:5.1f}")
    file = io.BytesIO()
    taggers["both"].save(file)
    loaded = tl.load(file.getvalue())  # this part does not need torch
    sentence = ["Angela", "Merkel", "visited", "Oslo", "."]
    print(f"\nSaved and loaded, {len(file.getvalue()) / 1e6:.1f} MB: {' '.join(sentence)}")
    print("  " + " ".join(loaded.predict([sentence])[0]))


class Recurrent(nn.Module):
    """h[t] = g(U·x[t] + V·h[t-1]), without constants; all weights are zero."""

    def __init__(self, g, n_words=5, size=4, n_labels=2):
        super().__init__()
        self.g = g
        self.words = nn.Parameter(torch.zeros(n_words, size))
        self.inputs = nn.Parameter(torch.zeros(size, size))  # U
        self.recurrence = nn.Parameter(torch.zeros(size, size))  # V
        self.h0 = nn.Parameter(torch.zeros(size))
        self.output = nn.Parameter(torch.zeros(n_labels, size))

    def forward(self, words):
        h, scores = self.h0, []
        for word in words:
            h = self.g(self.inputs @ self.words[word] + self.recurrence @ h)
            scores.append(self.output @ h)
        return torch.stack(scores)  # [T, Y]


def train_from_zero(g, steps=20):
    """Return the names of the weights that have moved, and whether all hidden units are equal."""
    network = Recurrent(g)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
    words, gold = [0, 1, 2, 3, 4], torch.tensor([0, 1, 1, 0, 1])
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(words), gold).backward()
        optimiser.step()
    moved = [name for name, p in network.named_parameters() if p.detach().abs().sum() > 0]
    output = network.output.detach()
    return moved, bool((output == output[:, :1]).all())


def zero_start():
    """Show what learns and what does not when everything starts at zero."""
    print("\nAll weights start at zero; after 20 steps these have moved:")
    for name, g in (("tanh", torch.tanh), ("sigmoid", torch.sigmoid)):
        moved, are_equal = train_from_zero(g)
        print(f"  {name:8} {', '.join(moved) or 'none'}")
        if moved:
            print(f"  {'':8} all hidden units are equal: {'yes' if are_equal else 'no'}")
    print(
        """
tanh(0) = 0, so every hidden state is 0. The gradient of the output weights is a multiple of the
hidden state: 0. The gradient of everything below is a multiple of the output weights: 0. Nothing
ever moves. sigmoid(0) = 1/2, so the output weights move, and with them the recurrence and h0. But
the gradient of U is a multiple of the word vectors, and that of the word vectors a multiple of U:
both stay 0, so the network never sees a word, and its hidden units stay copies of one another.
Random weights break both symmetries; that is why NeuralTagger has a random_state."""
    )


if __name__ == "__main__":
    names()
    zero_start()
