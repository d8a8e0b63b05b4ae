"""A pump and its sensors: regimes found without labels, although many values are missing.

Every minute two sensors on a pump measure its vibration and its temperature. The radio link is
poor: a fifth of the values is lost, each sensor on its own, and for two hours nothing arrives at
all. Nobody wrote down what the pump was doing. How many regimes does it have, when was it in which,
and how long do they last?

A hidden Markov model with a Gaussian emission answers all three. A missing value is integrated out
exactly: a minute with one value still counts for what it says, and in the long gap the chain of
states carries on. Models with two to five states are compared by the Bayesian information
criterion. For comparison, the same is done after filling each gap with the value before it, as is
often recommended. Run it; with a file name it draws a picture, for which it needs matplotlib:

    python examples/regimes.py
    python examples/regimes.py regimes.png
"""

import sys

import numpy as np

import tagloom as tl

REGIMES = ("idle", "running", "cavitating", "overheated")
# Vibration in mm/s and temperature in °C: correlated when running, shaking when cavitating.
MEANS = np.array([[0.6, 31.0], [2.4, 48.0], [5.2, 50.0], [3.0, 66.0]])
COVARIANCES = np.array(
    [
        [[0.03, 0.0], [0.0, 4.0]],
        [[0.20, 0.9], [0.9, 9.0]],
        [[1.60, 0.0], [0.0, 8.0]],
        [[0.30, 0.0], [0.0, 10.0]],
    ]
)
STAYS = np.array([0.985, 0.99, 0.96, 0.97])  # probability of the same regime a minute later
GAP = slice(700, 820)


def work(T=1440, seed=6):
    """Return a day of minutes: the regime of each, and what the sensors measure."""
    rng = np.random.default_rng(seed)
    next_regime = np.array([[0, 1, 0, 0], [0.4, 0, 0.4, 0.2], [0, 0.8, 0, 0.2], [1, 0, 0, 0]])
    regimes = np.zeros(T, dtype=int)
    for t in range(1, T):
        now = regimes[t - 1]
        regimes[t] = now if rng.random() < STAYS[now] else rng.choice(4, p=next_regime[now])
    noise = np.linalg.cholesky(COVARIANCES)[regimes] @ rng.standard_normal((T, 2, 1))
    return regimes, MEANS[regimes] + noise[:, :, 0]


def transmit(measured, seed=5):
    """Return what arrives: NaN for lost values."""
    rng = np.random.default_rng(seed)
    received = measured.copy()
    received[rng.random(received.shape) < 0.2] = np.nan
    received[GAP] = np.nan
    return received


def repeat_last(received):
    """Fill each gap with the value before it."""
    last = np.maximum.accumulate(np.where(np.isnan(received), 0, np.arange(len(received))[:, None]))
    return received[last, np.arange(received.shape[1])]


def choose(received):
    """Fit models with two to five states; return the selection."""
    hmm = tl.HMM(
        emissions=tl.emissions.Gaussian("full"), stop=False, restarts=2, random_state=0, n_threads=1
    )
    return tl.select_states(hmm, [received], range(2, 6), by="bic", progress=False)


def name_states(model):
    """Return the name of each state: the regime whose means are nearest."""
    distances = ((model.emission_.means_[:, None] - MEANS) / [2.0, 10.0]) ** 2
    return [REGIMES[r] for r in distances.sum(axis=2).argmin(axis=1)]


def accuracy(model, received, regimes, where=slice(None)):
    """Return the share of minutes whose regime is found."""
    names = name_states(model)
    found = np.array([names[int(state)] for state in model.predict([received])[0]])
    return (found == np.array(REGIMES)[regimes])[where].mean()


def draw(received, model, regimes, path):
    """Draw the signal over the bands of the states found, their posterior, and the truth."""
    try:
        import matplotlib

        matplotlib.use("Agg")  # a file needs no window
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("The picture needs matplotlib: pip install 'tagloom[plot]'")
    names = name_states(model)
    gamma = model.predict_marginals([received])[0]  # [T, Y]
    hours = np.arange(len(received)) / 60
    colours = {"idle": "#9ecae1", "running": "#a1d99b", "cavitating": "#fdae6b"}
    colours["overheated"] = "#fc9272"
    figure, axes = plt.subplots(
        4, 1, figsize=(11, 6.4), sharex=True, height_ratios=(3, 3, 1.2, 0.5), layout="constrained"
    )
    path_found = [names[int(state)] for state in model.predict([received])[0]]
    for ax, column, label in zip(
        axes, received.T, ("vibration, mm/s", "temperature, °C"), strict=False
    ):
        for begin, end, name in runs(path_found):
            ax.axvspan(hours[begin], hours[end - 1] + 1 / 60, color=colours[name], alpha=0.6, lw=0)
        ax.plot(hours, column, ".", color="black", markersize=2)
        ax.set_ylabel(label)
    order = [names.index(name) for name in REGIMES if name in names]
    shares, shown = gamma[:, order].T, [names[y] for y in order]
    axes[2].stackplot(hours, shares, colors=[colours[name] for name in shown], labels=shown)
    axes[2].set(ylim=(0, 1), ylabel="posterior")
    for begin, end, r in runs(regimes.tolist()):
        axes[3].axvspan(hours[begin], hours[end - 1] + 1 / 60, color=colours[REGIMES[r]], lw=0)
    axes[3].set(yticks=[], ylabel="truth", xlabel="hours", xlim=(0, 24), xticks=range(0, 25, 3))
    axes[0].set_title("A day of a pump: measured (dots), regimes found (bands)")
    handles, labels = axes[2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=4, frameon=False)
    figure.savefig(path, dpi=100)


def runs(values):
    """Yield the begin, end and value of each run of equal values."""
    begin = 0
    for t in range(1, len(values) + 1):
        if t == len(values) or values[t] != values[begin]:
            yield begin, t, values[begin]
            begin = t


def main():
    regimes, measured = work()
    received = transmit(measured)
    lost = np.isnan(received)
    print(
        f"{len(received)} minutes; {lost.any(axis=1).sum()} miss a value, "
        f"{lost.all(axis=1).sum()} of them both"
    )
    print()
    selection = choose(received)
    print("states        BIC")
    for row in selection.candidates:
        mark = "  <" if row.n_states == selection.n_states else ""
        print(f"{row.n_states:6}{row.bic:11.1f}{mark}")
    model = selection.model
    print()
    print(f"{'regime':12}{'vibration':>16}{'temperature':>16}{'minutes each time':>20}")
    for y, name in enumerate(name_states(model)):
        mean, cov = model.emission_.means_[y], model.emission_.covariances_[y]
        deviation = np.sqrt(np.diag(cov))
        stay = model.transmat_[y, y]
        print(
            f"{name:12}{mean[0]:8.1f} ± {deviation[0]:5.2f}{mean[1]:9.1f} ± {deviation[1]:4.1f}"
            f"{1 / (1 - stay):20.0f}"
        )
    print()
    filled = repeat_last(received)
    naive = tl.HMM(
        n_states=model.emission_.means_.shape[0],
        emissions=tl.emissions.Gaussian("full"),
        stop=False,
        restarts=2,
        random_state=0,
    ).fit([filled])
    some = lost.any(axis=1) & ~lost.all(axis=1)
    print(f"{'regimes found, % of minutes':32}{'all':>6}{'one value lost':>17}")
    for label, fitted, data in (
        ("missing values integrated out", model, received),
        ("gaps filled with the last value", naive, filled),
    ):
        everywhere = 100 * accuracy(fitted, data, regimes)
        print(f"{label:32}{everywhere:6.1f}{100 * accuracy(fitted, data, regimes, some):17.1f}")

    if len(sys.argv) > 1:
        draw(received, model, regimes, sys.argv[1])
        print(f"wrote {sys.argv[1]}")


if __name__ == "__main__":
    main()
