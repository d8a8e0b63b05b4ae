"""Seeds of the fuzzer, inputs that once were faults, and a few thousand damaged seeds."""

import multiprocessing
import os
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest

from fuzz.damage import damage_models
from fuzz.targets import CASES, MISSING, TARGETS, forge, mutate

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
    name = path.parent.name
    if package := MISSING.get(name.removeprefix("corpus-")):
        pytest.skip(f"{package} is not installed")
    target, _ = TARGETS[name]
    target(path.read_bytes())


@pytest.mark.soak
def test_a_million_damaged_models():
    n = int(os.environ.get("TAGLOOM_MUTATIONS", 1_000_000))
    n_workers = os.cpu_count() or 1
    jobs = [(n * i // n_workers, n * (i + 1) // n_workers) for i in range(n_workers)]
    with ProcessPoolExecutor(n_workers, multiprocessing.get_context("spawn")) as pool:
        outcomes = sum(pool.map(damage_models, jobs), Counter())
    print(f"\n{n:,} damaged models:", dict(outcomes))
    assert sum(outcomes.values()) == n
