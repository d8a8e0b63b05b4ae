"""Linear Gaussian models to learn: what made the data, and which parts are given, fixed or vary."""

import numpy as np

import tagloom as tl
from tagloom.dynamics import InverseWishart, Normal

TURN = 0.97 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])


def make_truth(**options):
    parts = {
        "transition": TURN,
        "transition_covariance": np.diag([0.1, 0.2]),
        "observation": [[1.0, 0.5], [0.0, 1.0], [1.0, -1.0]],
        "observation_covariance": [[0.5, 0.1, 0], [0.1, 0.4, 0], [0, 0, 0.3]],
        "observation_offset": [5.0, -3.0, 0.0],
        "initial_mean": [1.0, -1.0],
        "initial_covariance": np.eye(2),
    }
    return tl.LinearGaussian(**{**parts, **options})


def draw(truth, lengths, missing=0.0, seed=0, **options):
    rng = np.random.default_rng(seed)
    series = [
        truth.generate(T, random_state=i, **options).observations for i, T in enumerate(lengths)
    ]
    for y in series:
        y[rng.random(y.shape) < missing] = np.nan
    return series


# Name: (arguments of the model, arguments of fit, for three sequences of T steps).
T = 6
RNG = np.random.default_rng(1)
INPUTS = [RNG.standard_normal((T, 2)) for _ in range(3)]
MASK_A = np.array([[True, False], [False, True]])
DIAGONAL = ~np.eye(3, dtype=bool)
CASES = {
    "everything": ({}, {}),
    "offset": ({"transition_offset": [0.1, 0.1]}, {}),
    "inputs": ({}, {"inputs": INPUTS}),
    "inputs of states only": (
        {"observation_input": np.zeros((3, 2)), "fixed": ["observation_input"]},
        {"inputs": INPUTS},
    ),
    "diffuse": ({"diffuse": True}, {}),
    "partly diffuse": ({"diffuse": [True, False]}, {}),
    "fixed observation": (
        {"observation": [[1, 0], [0, 1], [1, 1]], "fixed": ["observation", "observation_offset"]},
        {},
    ),
    "fixed transition": ({"transition": TURN, "fixed": ["transition"]}, {}),
    "fixed noise": (
        {
            "observation_covariance": np.eye(3),
            "transition_covariance": np.eye(2),
            "fixed": ["observation_covariance", "transition_covariance"],
        },
        {},
    ),
    "fixed start": (
        {
            "initial_mean": [0, 0],
            "initial_covariance": np.eye(2),
            "fixed": ["initial_mean", "initial_covariance"],
        },
        {},
    ),
    "masked transition": (
        {
            "transition": [[0.9, 0.1], [-0.1, 0.9]],
            "transition_covariance": [[1, 0.4], [0.4, 1]],
            "fixed": {"transition": MASK_A},
        },
        {},
    ),
    "masked observation": (
        {"observation": [[1, 0], [0, 1], [0, 0]], "fixed": {"observation": np.eye(3)[:, :2] == 1}},
        {},
    ),
    "diagonal noise": (
        {"observation_covariance": np.eye(3), "fixed": {"observation_covariance": DIAGONAL}},
        {},
    ),
    "noise of one component fixed": (
        {
            "observation_covariance": [[1, 0.2, 0], [0.2, 1, 0], [0, 0, 0.3]],
            "fixed": {"observation_covariance": np.array([[0, 0, 1], [0, 0, 1], [1, 1, 1]], bool)},
        },
        {},
    ),
    "priors": (
        {
            "prior": {
                "transition": Normal(0.5 * np.eye(2), 0.1),
                "transition_covariance": InverseWishart(np.eye(2), 5),
                "observation": Normal(0, 0.5),
                "observation_offset": Normal(1, 2),
                "observation_covariance": InverseWishart(0.5, 6),
                "initial_mean": Normal(0, 0.1),
                "initial_covariance": InverseWishart(1.0, 4),
            }
        },
        {},
    ),
    "priors and masks": (
        {
            "transition": [[0.9, 0.1], [-0.1, 0.9]],
            "observation_covariance": np.eye(3),
            "fixed": {"transition": MASK_A, "observation_covariance": DIAGONAL},
            "prior": {
                "transition": Normal(0.0, 0.2),
                "observation_covariance": InverseWishart(np.diag([1, 2, 3.0]), 4),
            },
        },
        {},
    ),
    "varying transition": (
        {"observation": [[1, 0], [0, 1], [1, 1]]},
        {
            "varying": {
                "transition": [TURN + 0.1 * RNG.standard_normal((T, 2, 2)) for _ in range(3)]
            }
        },
    ),
    "varying transition noise": (
        {"transition_offset": [0, 0]},
        {
            "varying": {
                "transition_covariance": [
                    np.eye(2) * RNG.uniform(0.1, 1, (T, 1, 1)) for _ in range(3)
                ]
            }
        },
    ),
    "varying observation": (
        {},
        {"varying": {"observation": [RNG.standard_normal((T, 3, 2)) for _ in range(3)]}},
    ),
    "varying observation noise": (
        {},
        {
            "varying": {
                "observation_covariance": [
                    np.array([[1, 0.3, 0], [0.3, 1, 0], [0, 0, 1]]) * RNG.uniform(0.2, 2, (T, 1, 1))
                    for _ in range(3)
                ]
            }
        },
    ),
    "varying offsets": (
        {},
        {
            "varying": {
                "transition_offset": [RNG.standard_normal((T, 2)) for _ in range(3)],
                "observation_offset": [RNG.standard_normal((T, 3)) for _ in range(3)],
            }
        },
    ),
    "varying in the model": ({"transition": TURN + 0.1 * RNG.standard_normal((T, 2, 2))}, {}),
}
