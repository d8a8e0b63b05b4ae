"""Seeds of the fuzzer, inputs that once were faults, and a few thousand damaged seeds."""

import os
import random

import pytest

from fuzz.targets import CASES, TARGETS, forge, mutate

FAULTS = sorted(path for path in CASES.glob("*/*"))


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_damaged_seeds(name):
    target, seeds = TARGETS[name]
    seeds, rng = [*seeds()], random.Random(name)
    for seed in seeds:
        target(seed)
    for _ in range(100):
        data = rng.choice(seeds)
        for _ in range(rng.choice([1, 1, 2, 5])):
            data = forge(data, rng) if name == "model" and rng.random() < 0.7 else mutate(data, rng)
        target(data)


@pytest.mark.parametrize("path", FAULTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_input_that_was_a_fault(path):
    target, _ = TARGETS[path.parent.name]
    target(path.read_bytes())


@pytest.mark.soak
def test_a_million_damaged_models():
    target, seeds = TARGETS["model"]
    seeds, rng = [*seeds()], random.Random(7)
    n = int(os.environ.get("TAGLOOM_MUTATIONS", 1_000_000))
    for _ in range(n):
        data = rng.choice(seeds)
        for _ in range(rng.choice([1, 1, 2, 5])):
            data = forge(data, rng) if rng.random() < 0.7 else mutate(data, rng)
        target(data)
    print(f"{n:,} damaged models refused or used")
