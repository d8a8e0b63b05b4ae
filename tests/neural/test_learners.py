"""The optimisers are those of torch, and batches hold every sentence once."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from tagloom.neural.learners import AdamW, Examples, Features, Wide  # noqa: E402
from tagloom.scores.networks import Alphabets  # noqa: E402


def test_adamw_is_that_of_torch():
    torch.manual_seed(0)
    ours = [torch.randn(4, 3, requires_grad=True), torch.randn(5, requires_grad=True)]
    theirs = [p.detach().clone().requires_grad_(True) for p in ours]
    optimiser = AdamW([{"params": ours[:1], "eta": 0.02}, {"params": ours[1:], "eta": 0.1}])
    groups = [{"params": theirs[:1], "lr": 0.02}, {"params": theirs[1:], "lr": 0.1}]
    expected = torch.optim.AdamW(groups, betas=(0.9, 0.9), weight_decay=0.01)
    for _ in range(6):
        for parameters in (ours, theirs):
            for p in parameters:
                p.grad = None
            sum((p**3).sum() for p in parameters).backward()
        length = torch.nn.utils.clip_grad_norm_(theirs, 2.0)
        optimiser.clip(2.0)
        optimiser.step(1.0)
        expected.step()
    assert length > 2
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("has_values", [False, True])
def test_the_weights_of_features_are_learned_by_adagrad(has_values):
    rng = np.random.default_rng(0)
    wide = Wide(7, 3)
    bag = torch.nn.EmbeddingBag(7, 3, mode="sum")
    torch.nn.init.zeros_(bag.weight)
    expected = torch.optim.Adagrad(bag.parameters(), lr=0.1)
    for _ in range(5):
        ids = torch.from_numpy(rng.integers(7, size=7))
        values = torch.from_numpy(rng.normal(size=7).astype(np.float32)) if has_values else None
        features = Features(
            np.array([0, 3, 3, 7]),
            ids.numpy().astype(np.int32),
            None if values is None else values.numpy(),
        )
        begins, target = torch.tensor([0, 3, 3]), torch.from_numpy(rng.normal(size=(3, 3)))
        scores = bag(ids, begins, values)
        torch.testing.assert_close(wide.score(features), scores.detach())
        scores.retain_grad()
        expected.zero_grad()
        (scores - target.float()).square().sum().backward()
        wide.step(features, scores.grad, 0.1)
        expected.step()
        torch.testing.assert_close(
            torch.from_numpy(wide.weight), bag.weight.detach(), rtol=1e-5, atol=1e-6
        )


def test_batches_have_every_sentence_once():
    sentences = [["w"] * n for n in [1, 5, 2, 30, 7, 7, 3, 1, 12, 4]]
    inputs = Alphabets((), "").encode(sentences)
    gold = np.ones((len(inputs.types), 2), np.bool_)
    examples = Examples(inputs, np.array([9]), None, gold, np.ones(len(sentences)))
    runs = [[*examples.batches(12, np.random.default_rng(k))] for k in (0, 0, 1)]
    for batches in runs:
        assert sorted(np.concatenate(batches).tolist()) == [*range(len(sentences))]
        for batch in batches:
            size = sum(len(sentences[i]) for i in batch)
            assert size <= 12 or len(batch) == 1
    assert [b.tolist() for b in runs[0]] == [b.tolist() for b in runs[1]]
    assert [b.tolist() for b in runs[0]] != [b.tolist() for b in runs[2]]
    some, tokens = inputs.select(np.array([2, 0]))
    assert np.diff(some.offsets).tolist() == [2, 1]
    assert tokens.tolist() == [6, 7, 0]
