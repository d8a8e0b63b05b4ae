"""A bicycle ride through a tunnel: a noisy track with gaps, smoothed.

A receiver on a bicycle notes its position every two seconds, some metres off, and now and then only
one of the two coordinates. In a tunnel it notes nothing for more than a minute. Where was the
bicycle?

The state is what we want to know: position and velocity, four numbers that are never observed
themselves. Between two notes the position moves by the velocity, and the velocity changes a little,
nobody knows how. The receiver shows the position plus noise. That is the whole model; how large the
two kinds of noise are, EM learns from the track itself, with everything else fixed. The filter then
knows the past of each moment, the smoother also what came after it, and that is what helps in a
tunnel. Run it; with a file name it draws a picture, for which it needs matplotlib:

    python examples/tracking.py
    python examples/tracking.py track.png
"""

import sys

import numpy as np

import tagloom as tl

STEP = 2.0  # seconds
NOISE = 6.0  # metres, the standard deviation of the receiver
TUNNEL = slice(150, 190)  # 80 seconds


def ride(T=400, seed=7):
    """Return positions [T, 2] in metres of a ride at 4 to 8 m/s that turns this way and that."""
    rng = np.random.default_rng(seed)
    t = np.arange(T)
    bends = np.convolve(rng.normal(0, 0.11, T + 30), np.ones(30) / 30, mode="valid")[:T]
    heading = 0.6 + np.cumsum(bends * STEP * 0.9)
    speed = 6 + 2 * np.sin(2 * np.pi * t / 170)
    velocity = speed[:, None] * np.stack([np.cos(heading), np.sin(heading)], axis=1)
    return np.cumsum(STEP * velocity, axis=0)


def receive(positions, seed=8):
    """Return what the receiver notes: noise, single coordinates, nothing in the tunnel."""
    rng = np.random.default_rng(seed)
    noted = positions + rng.normal(0, NOISE, positions.shape)
    noted[rng.random(noted.shape) < 0.05] = np.nan
    noted[TUNNEL] = np.nan
    return noted


def make_model():
    """Return the model: x = (east, north, east per second, north per second)."""
    moves = np.eye(4) + STEP * np.eye(4, k=2)  # position += STEP * velocity
    # A push of the velocity during a step also moves the position.
    push = np.kron([[STEP**3 / 3, STEP**2 / 2], [STEP**2 / 2, STEP]], np.eye(2))
    return tl.LinearGaussian(
        transition=moves,
        transition_covariance=0.05 * push,
        observation=np.eye(2, 4),
        observation_covariance=100 * np.eye(2),
        diffuse=True,  # nobody knows where the ride begins, nor how fast
        fixed=["transition", "observation", "observation_offset"],
        tolerance=1e-4,
        max_iterations=500,
    )


def error(found, positions, where=slice(None)):
    """Return the root mean square distance in metres, where something was found."""
    squares = ((found - positions)[where] ** 2).sum(axis=1)
    return np.sqrt(np.nanmean(squares))


def interpolate(noted):
    """Return the notes with straight lines across the gaps."""
    t = np.arange(len(noted))
    filled = noted.copy()
    for column in filled.T:
        seen = np.isfinite(column)
        column[~seen] = np.interp(t[~seen], t[seen], column[seen])
    return filled


def coverage(smoothed, positions, where):
    """Return how often the true position is within the ellipse of 95 %."""
    gaps = positions[where] - smoothed.means[where, :2]
    spread = np.linalg.inv(smoothed.covariances[where, :2, :2])
    return (np.einsum("ti,tij,tj->t", gaps, spread, gaps) < 5.991).mean()  # chi-squared, 2 degrees


def draw(positions, noted, filtered, smoothed, path):
    """Draw the track from above, all of it and the tunnel, with ellipses of 95 %."""
    try:
        import matplotlib

        matplotlib.use("Agg")  # a file needs no window
        import matplotlib.pyplot as plt
        from matplotlib.patches import Ellipse
    except ImportError:
        sys.exit("The picture needs matplotlib: pip install 'tagloom[plot]'")
    shape = {"figsize": (11, 4.8), "width_ratios": (1.75, 1), "layout": "constrained"}
    figure, (whole, near) = plt.subplots(1, 2, **shape)
    for ax in (whole, near):
        ax.plot(*noted.T, ".", color="0.6", markersize=4, label="received")
        ax.plot(*filtered.means[1:, :2].T, color="C1", linewidth=1.2, label="filtered")
        ax.plot(*smoothed.means[:, :2].T, color="C0", linewidth=2, label="smoothed")
        ax.plot(*positions.T, color="black", linewidth=1, label="true")
        ax.set(aspect="equal", xlabel="metres east", ylabel="metres north")
    for t in range(TUNNEL.start - 8, TUNNEL.stop + 8, 4):
        values, vectors = np.linalg.eigh(smoothed.covariances[t, :2, :2])
        width, height = 2 * np.sqrt(5.991 * values)
        angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
        shade = {"facecolor": "C0", "edgecolor": "C0", "alpha": 0.2, "linewidth": 0.5}
        near.add_patch(Ellipse(smoothed.means[t, :2], width, height, angle=angle, **shade))
    low, high = filtered.means[TUNNEL, :2].min(axis=0), filtered.means[TUNNEL, :2].max(axis=0)
    for t in (TUNNEL.start - 12, TUNNEL.stop + 12):
        low, high = np.minimum(low, positions[t]), np.maximum(high, positions[t])
    corners = np.stack([low - 40, high + 40])
    near.set(xlim=corners[:, 0], ylim=corners[:, 1], title="the tunnel, with ellipses of 95 %")
    whole.set(title="the ride")
    whole.indicate_inset([*corners[0], *(corners[1] - corners[0])], edgecolor="black")
    whole.legend(frameon=False)
    figure.savefig(path, dpi=100)


def main():
    positions = ride()
    noted = receive(positions)
    model = make_model().fit(noted)
    filtered, smoothed = model.filter(noted), model.smooth(noted)

    east, north = np.sqrt(np.diag(model.observation_covariance_))
    print(
        f"{len(noted)} steps of {STEP:.0f} s, {np.isnan(noted).any(axis=1).sum()} of them with gaps"
    )
    print(f"EM: {len(model.history_)} iterations, {model.training_['stopped']}")
    print(f"noise of the receiver: {NOISE:.1f} m; learnt: {east:.1f} and {north:.1f} m")
    print()
    seen = np.isfinite(noted).all(axis=1)
    print("distance from the true position (root mean square, metres)")
    print(f"{'':22}{'received':>10}{'in tunnel':>11}")
    for name, found in {
        "notes, straight lines": interpolate(noted),
        "filter: the past": filtered.means[:, :2],
        "smoother: all": smoothed.means[:, :2],
    }.items():
        outside, inside = error(found, positions, seen), error(found, positions, TUNNEL)
        print(f"{name:22}{outside:10.1f}{inside:11.1f}")
    print()
    share = coverage(smoothed, positions, slice(None))
    print(f"true position within the ellipse of 95 %: {share:.0%}")

    # One note after another, as a program would that runs during the ride.
    belief = None
    for note in noted[: TUNNEL.start]:
        belief = model.update(note, belief)
    ahead = model.forecast(belief, 10)
    radius = np.sqrt(ahead.state_covariances[:, 0, 0])
    print(f"{10 * STEP:.0f} s into the tunnel, the position is known to ± {2 * radius[-1]:.0f} m")

    if len(sys.argv) > 1:
        draw(positions, noted, filtered, smoothed, sys.argv[1])
        print(f"wrote {sys.argv[1]}")


if __name__ == "__main__":
    main()
