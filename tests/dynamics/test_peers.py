"""`LinearGaussian` beside statsmodels, pykalman and filterpy."""

import warnings

import numpy as np
import pytest

import tagloom as tl
from gaussians import random_system

pytestmark = pytest.mark.peers


def parts_of(system):
    return {
        "transition": system.A[0],
        "transition_covariance": system.Q[0],
        "transition_offset": system.b[0],
        "observation": system.C[0],
        "observation_covariance": system.R[0],
        "observation_offset": system.d[0],
        "initial_mean": system.mean,
        "initial_covariance": system.cov,
    }


def statsmodels_result(system, y):
    from statsmodels.tsa.statespace.initialization import Initialization
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

    n, m = system.A.shape[1], y.shape[1]
    peer = KalmanSmoother(k_endog=m, k_states=n, k_posdef=n)
    peer.bind(np.asfortranarray(y.T.copy()))
    peer["transition"], peer["design"], peer["selection"] = system.A[0], system.C[0], np.eye(n)
    peer["state_cov"], peer["obs_cov"] = system.Q[0], system.R[0]
    peer["state_intercept"], peer["obs_intercept"] = system.b[0][:, None], system.d[0][:, None]
    if system.diffuse.all():
        start = Initialization(n, "diffuse")
    elif not system.diffuse.any():
        start = Initialization(n, "known", constant=system.mean, stationary_cov=system.cov)
    else:  # blocks of one state each
        start = Initialization(n)
        for i in range(n):
            span, mean, cov = (i, i + 1), system.mean[i : i + 1], system.cov[i : i + 1, i : i + 1]
            if system.diffuse[i]:
                start.set(span, "diffuse")
            else:
                start.set(span, "known", constant=mean, stationary_cov=cov)
    peer.initialize(start)
    peer.tolerance = 0  # its steady state differs by 1e-10
    peer.filter_univariate = bool(system.diffuse.any())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peer.smooth()


@pytest.mark.parametrize("missing", [0, 0.3])
@pytest.mark.parametrize(("n", "m", "T"), [(1, 1, 50), (2, 1, 50), (4, 2, 300), (9, 3, 60)])
def test_statsmodels(n, m, T, missing):
    system = random_system(np.random.default_rng(n), n, m, T, missing=missing)
    model = tl.LinearGaussian(**parts_of(system))
    peer = statsmodels_result(system, system.y)
    filtered, smoothed = model.filter(system.y), model.smooth(system.y)

    def close(found, theirs):
        np.testing.assert_allclose(found, theirs, rtol=1e-9, atol=1e-11)

    close(filtered.log_likelihood, peer.llf)
    close(filtered.log_densities, peer.llf_obs)
    close(filtered.means, peer.filtered_state.T)
    close(filtered.covariances, np.moveaxis(peer.filtered_state_cov, 2, 0))
    close(filtered.predicted_means, peer.predicted_state.T[:-1])
    close(filtered.predicted_covariances, np.moveaxis(peer.predicted_state_cov, 2, 0)[:-1])
    close(smoothed.means, peer.smoothed_state.T)
    close(smoothed.covariances, np.moveaxis(peer.smoothed_state_cov, 2, 0))
    lags = np.moveaxis(peer.smoothed_state_autocov, 2, 0)[:-1]
    close(smoothed.lag_one_covariances, lags)


@pytest.mark.parametrize("missing", [0, 0.3])
@pytest.mark.parametrize(
    ("n", "m", "diffuse"), [(1, 1, 1), (2, 1, 2), (3, 2, 3), (4, 1, 4), (3, 1, 2)]
)
def test_exact_diffuse_start_of_statsmodels(n, m, diffuse, missing):
    rng = np.random.default_rng([n, m, diffuse])
    for _ in range(3):
        system = random_system(rng, n, m, 20, missing=missing, diffuse=diffuse)
        system.cov = np.diag(np.diag(system.cov))  # its blocks are independent
        model = tl.LinearGaussian(**parts_of(system), diffuse=system.diffuse)
        peer = statsmodels_result(system, system.y)
        filtered, smoothed = model.filter(system.y), model.smooth(system.y)
        # It counts the steps that begin with an infinite variance.
        assert filtered.n_diffuse == peer.nobs_diffuse - 1

        def close(found, theirs):
            np.testing.assert_allclose(found, theirs, rtol=1e-7, atol=1e-8)

        close(filtered.log_likelihood, peer.llf)
        close(filtered.log_densities, peer.llf_obs)
        close(filtered.means, peer.filtered_state.T)
        after = slice(filtered.n_diffuse, None)
        close(filtered.covariances[after], np.moveaxis(peer.filtered_state_cov, 2, 0)[after])
        close(smoothed.means, peer.smoothed_state.T)
        close(smoothed.covariances, np.moveaxis(peer.smoothed_state_cov, 2, 0))


def pykalman_of(parts, **options):
    from pykalman import KalmanFilter

    names = {
        "transition": "transition_matrices",
        "transition_covariance": "transition_covariance",
        "transition_offset": "transition_offsets",
        "observation": "observation_matrices",
        "observation_covariance": "observation_covariance",
        "observation_offset": "observation_offsets",
        "initial_mean": "initial_state_mean",
        "initial_covariance": "initial_state_covariance",
    }
    return KalmanFilter(**{names[key]: value for key, value in parts.items()}, **options)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 2)])
def test_pykalman(n, m):
    system = random_system(np.random.default_rng(n), n, m, 40)
    system.y[10:13] = np.nan  # it leaves out whole steps
    model, peer = tl.LinearGaussian(**parts_of(system)), pykalman_of(parts_of(system))
    masked = np.ma.masked_invalid(system.y)
    for found, theirs in (
        (model.filter(system.y), peer.filter(masked)),
        (model.smooth(system.y), peer.smooth(masked)),
    ):
        np.testing.assert_allclose(found.means, theirs[0], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(found.covariances, theirs[1], rtol=1e-9, atol=1e-11)
    expected = peer.loglikelihood(masked)
    np.testing.assert_allclose(model.log_likelihood(system.y), expected, rtol=1e-10)


def test_em_of_pykalman():
    """From the same start, the same likelihood after each iteration."""
    system = random_system(np.random.default_rng(3), 3, 2, 60)
    parts = parts_of(system)
    parts["transition_offset"] = np.zeros(3)
    learnt = [
        "transition_matrices",
        "observation_matrices",
        "transition_covariance",
        "observation_covariance",
        "initial_state_mean",
        "initial_state_covariance",
    ]
    for iterations in (1, 2, 5):
        peer = pykalman_of(parts, em_vars=learnt).em(system.y, n_iter=iterations)
        model = tl.LinearGaussian(
            **parts,
            fixed=["transition_offset", "observation_offset"],
            max_iterations=iterations,
            tolerance=0,
        ).fit(system.y)
        expected = peer.loglikelihood(system.y)
        np.testing.assert_allclose(model.log_likelihood(system.y), expected, rtol=1e-8)
        np.testing.assert_allclose(model.transition_, peer.transition_matrices, rtol=1e-6)
        np.testing.assert_allclose(
            model.observation_covariance_, peer.observation_covariance, rtol=1e-6
        )


def test_filterpy():
    from filterpy.kalman import KalmanFilter

    system = random_system(np.random.default_rng(5), 3, 2, 30)
    parts = parts_of(system) | {"transition_offset": np.zeros(3), "observation_offset": np.zeros(2)}
    peer = KalmanFilter(dim_x=3, dim_z=2)
    peer.F, peer.Q, peer.H, peer.R = (system.A[0], system.Q[0], system.C[0], system.R[0])
    peer.x, peer.P = system.mean[:, None], system.cov
    means, covs, _, _ = peer.batch_filter(list(system.y[:, :, None]), update_first=True)
    model = tl.LinearGaussian(**parts)
    filtered = model.filter(system.y)
    np.testing.assert_allclose(filtered.means, means[:, :, 0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(filtered.covariances, covs, rtol=1e-8, atol=1e-10)
    smoothed_means, smoothed_covs, _, _ = peer.rts_smoother(means, covs)
    smoothed = model.smooth(system.y)
    np.testing.assert_allclose(smoothed.means, smoothed_means[:, :, 0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(smoothed.covariances, smoothed_covs, rtol=1e-8, atol=1e-10)
