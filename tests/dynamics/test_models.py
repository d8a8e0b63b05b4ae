"""`LinearGaussian` as a model: files, pickles, scikit-learn, pictures."""

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tagloom as tl
from linear_gaussian_cases import CASES, T, draw, make_truth
from tagloom.dynamics import InverseWishart, Normal
from tagloom.dynamics.parameters import SHAPES
from tagloom.errors import MissingExtraError, ModelFileError, ParameterError, ShapeError
from tagloom.storage import read_bytes, to_bytes


def fitted(name="everything", **options):
    given, passed = CASES[name]
    model = tl.LinearGaussian(n_states=2, max_iterations=3, **{**given, **options})
    return model.fit(draw(make_truth(), [T, T, T], 0.1), **passed)


def assert_same(one, other):
    for name, array in one.parameters_.arrays().items():
        np.testing.assert_array_equal(array, getattr(other.parameters_, name))


@pytest.mark.parametrize("name", CASES)
def test_a_saved_model_is_the_same(name, tmp_path):
    model = fitted(name)
    path = tmp_path / "model.tagloom"
    model.save(path)
    for other in (tl.load(path), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert type(other) is tl.LinearGaussian
        assert_same(model, other)
        assert other.digest() == model.digest()
        assert other.training_ == model.training_
        assert other.history_ == model.history_
    loaded = tl.load(path)
    # It can be fitted again, with the same result.
    again = loaded.fit(draw(make_truth(), [T, T, T], 0.1), **CASES[name][1])
    assert_same(model, again)


def test_a_model_that_was_only_given_can_be_saved():
    model = make_truth()
    other = tl.load(model.to_bytes())
    assert_same(model, other)
    y = model.generate(20).observations
    assert other.log_likelihood(y) == model.log_likelihood(y)
    assert other.describe()["model"] == "LinearGaussian"


def test_priors_and_masks_survive_a_file():
    model = fitted("priors and masks")
    params = tl.load(model.to_bytes()).get_params()
    assert isinstance(params["prior"]["transition"], Normal)
    assert isinstance(params["prior"]["observation_covariance"], InverseWishart)
    np.testing.assert_array_equal(params["fixed"]["transition"], model.fixed["transition"])


def changed(model, change):
    """The bytes of a model whose header or arrays were changed."""
    header, arrays = read_bytes(model.to_bytes())
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(header, arrays)
    return to_bytes(header, arrays)


def put(name, value):
    def change(header, arrays):
        arrays[name] = np.array(value, dtype=arrays[name].dtype)

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("transition", [[np.nan, 0], [0, 1]]),
        put("transition", [[np.inf, 0], [0, 1]]),
        put("transition", np.eye(3)),
        put("transition", np.ones(4)),
        put("transition_covariance", [[1, 2], [2, 1]]),
        put("transition_covariance", [[1, 0.5], [0, 1]]),
        put("observation_covariance", -np.eye(3)),
        put("observation_covariance", np.eye(2)),
        put("initial_covariance", [[1, 0], [0, -1e-3]]),
        put("initial_mean", [np.nan, 0]),
        put("initial_mean", np.zeros((4, 2))),
        put("observation_offset", np.zeros(2)),
        put("observation_input", np.zeros((3, 1))),
        put("diffuse", [True]),
        lambda header, arrays: arrays.pop("transition"),
        lambda header, arrays: arrays.update(diffuse=np.zeros(2)),
        lambda header, arrays: arrays.update(
            transition=np.eye(2, dtype=np.int64).view("<M8[s]").view("i8")[:1]
        ),
        lambda header, arrays: header.update(varying=["nonsense"]),
        lambda header, arrays: header.update(varying=3),
        lambda header, arrays: header.pop("params"),
        lambda header, arrays: header["params"].update(n_states=-1),
        lambda header, arrays: header["params"].update(other=1),
        lambda header, arrays: header["params"].update(n_threads="x"),
        lambda header, arrays: header["params"].update(steady_state=-1),
        lambda header, arrays: header["params"].update(prior={"transition": {"kind": "open"}}),
        lambda header, arrays: header["params"].update(fixed=["nonsense"]),
        lambda header, arrays: header.update(history=[[1]]),
    ],
)
def test_hostile_files(change):
    data = changed(fitted(), change)
    with pytest.raises(ModelFileError):
        tl.load(data)


def test_other_kinds_are_refused():
    data = make_truth().to_bytes()
    with pytest.raises(ModelFileError):
        tl.CRF.load(data)
    assert isinstance(tl.LinearGaussian.load(data), tl.LinearGaussian)


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("diffuse", [False, True])
def test_beliefs_can_be_pickled(diffuse, noise):
    model = make_truth(diffuse=diffuse, observation_covariance=noise * np.eye(3))
    belief = model.update([1.0, np.nan, np.nan])
    assert (belief.start is not None) == diffuse
    again = pickle.loads(pickle.dumps(belief))
    for y in ([0.0, np.nan, np.nan], [0.0, 1.0, np.nan]):
        belief, again = model.update(y, belief), model.update(y, again)
        for one, other in zip(belief[:4], again[:4], strict=True):
            np.testing.assert_array_equal(one, other)
    assert belief.start is None


def test_damaged_starts_are_refused():
    start = make_truth(diffuse=True).update([1.0, np.nan, np.nan]).start
    numbers = start.__getstate__()
    for wrong in ([], numbers[:-1], [*numbers, 0.0], [-1.0, *numbers[1:]], [np.nan, *numbers[1:]]):
        with pytest.raises(ValueError, match="KalmanStart"):
            type(start).__new__(type(start)).__setstate__(wrong)


# ---- scikit-learn --------------------------------------------------------------------------------


def test_scikit_learn():
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, cross_val_score

    series = draw(make_truth(), [60] * 6)
    model = tl.LinearGaussian(n_states=2, max_iterations=10, fixed=["initial_mean"])
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    scores = cross_val_score(model, series, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    search = GridSearchCV(model, {"n_states": [1, 2]}, cv=3).fit(series)
    assert search.best_params_ == {"n_states": 2}
    np.testing.assert_allclose(
        search.score(series), search.best_estimator_.log_likelihood(series) / 360, rtol=1e-12
    )
    assert not model.is_fitted
    assert "n_states=2" in repr(model)


def test_inputs_can_be_routed():
    model = tl.LinearGaussian(n_states=1).set_fit_request(inputs=True)
    assert model.get_metadata_routing().fit.requests["inputs"] is True
    with pytest.raises(ParameterError):
        model.set_fit_request(Y=True)


# ---- pictures ------------------------------------------------------------------------------------


def test_plot():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot as plt

    model = tl.LinearGaussian(
        transition=np.eye(2),
        transition_covariance=np.eye(2),
        observation=np.eye(2),
        observation_covariance=np.eye(2),
        diffuse=True,
    )
    y = np.array([[1.0, 2.0], [np.nan, 3.0], [2.0, 4.0]])
    ax = tl.dynamics.plot_smooth(model, y, component=1, times=[10, 20, 30])
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    smoothed = model.smooth(y)
    np.testing.assert_array_equal(lines["observed"], [[10, 2], [20, 3], [30, 4]])
    np.testing.assert_allclose(lines["smoothed"][:, 1], smoothed.means[:, 1])
    (band,) = ax.collections
    edges = band.get_paths()[0].vertices
    widest = smoothed.means[0, 1] + 1.959964 * np.sqrt(smoothed.covariances[0, 1, 1])
    assert np.isclose(edges[edges[:, 0] == 10, 1].max(), widest, rtol=1e-6)
    assert band.get_label() == "95% band"
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, format="png")
    assert len(buffer.getvalue()) > 5000
    plt.close("all")
    for wrong in ({"component": 2}, {"level": 0}, {"level": 1.5}, {"times": [1, 2]}):
        with pytest.raises((ParameterError, ShapeError)) as error:
            tl.dynamics.plot_smooth(model, y, **wrong)
        assert error.value.parameter == next(iter(wrong))
    with pytest.raises(ParameterError):
        tl.dynamics.plot_smooth(model, [y, y])


def test_a_plot_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tagloom\[plot\]'"):
        tl.dynamics.plot_smooth(make_truth(), np.zeros((3, 3)))


def test_inference_imports_nothing_heavy():
    code = (
        "import sys, numpy as np, tagloom as tl; "
        "parts = ('transition', 'transition_covariance', 'observation', 'observation_covariance'); "
        "model = tl.LinearGaussian(**dict.fromkeys(parts, [[1]]), diffuse=True); "
        "model.smooth(np.zeros(3)); print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"matplotlib", "scipy", "sklearn", "pandas", "tagloom.dynamics.em"}


def test_parts_have_documented_shapes():
    model = fitted("inputs")
    sizes = {"n": 2, "m": 3, "k": 2}
    for name, letters in SHAPES.items():
        shape = tuple(sizes[letter] for letter in letters)
        assert getattr(model, f"{name}_").shape == shape
