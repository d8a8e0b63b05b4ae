"""The engine over Ray, on nodes that are simulated on this machine; run by `make test-cluster`."""

import os
import signal
import time

import numpy as np
import pytest

import tagloom as tl

pytestmark = [
    pytest.mark.cluster,
    # Ray leaves files and sockets open, and uses what others have deprecated.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def nodes():
    """A head without CPUs and two nodes of one CPU each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    room = 200 << 20
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": room, "include_dashboard": False},
    )
    cluster.workers = [cluster.add_node(num_cpus=1, object_store_memory=room) for _ in range(2)]
    cluster.room = room
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    train = tl.datasets.load(split="train")
    for i in range(4):
        tl.write(tl.Corpus(train[i::4]), folder / f"{i}.conllu")
    return tl.files(str(folder / "*.conllu"), label="upos")


def make(**more):
    return tl.CRF("pos", algorithm="lbfgs", max_iterations=12, n_threads=1, **more)


def weights(tagger):
    scores = tagger.scores_
    return np.concatenate([scores.rows.weights, scores.trans.ravel(), scores.start, scores.stop])


@pytest.fixture(scope="module")
def undisturbed(source):
    return weights(make().fit(source))


def test_the_same_bits_as_this_process(nodes, source, undisturbed):
    tagger = make(cluster=nodes.address, n_workers=2).fit(source)
    np.testing.assert_array_equal(weights(tagger), undisturbed)


@pytest.mark.parametrize("params", [{"n_states": 5}, {}])
def test_hidden_models_have_the_same_bits(nodes, source, params):
    """Learning without labels, and counting them."""
    params = params | {"max_iterations": 5}
    ours = tl.HMM(cluster=nodes.address, n_workers=2, **params).fit(source)
    theirs = tl.HMM(**params).fit(source)
    assert [r.objective for r in ours.history_] == [r.objective for r in theirs.history_]
    ours, theirs = ours.to_file().arrays, theirs.to_file().arrays
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array)


def test_a_killed_actor_and_a_lost_node_change_nothing(nodes, source, undisturbed):
    tagger = make(cluster=nodes.address, n_workers=2)
    data = tagger.read_data(source, None, None)
    waits = []

    def disturb(record):
        waits.append(time.perf_counter())
        if record.iteration == 3:
            os.kill(data.engine.process_ids[0], signal.SIGKILL)
        if record.iteration == 7:  # a node goes, and another comes
            nodes.remove_node(nodes.workers.pop())
            nodes.workers.append(nodes.add_node(num_cpus=1, object_store_memory=nodes.room))

    try:
        tagger.fit_data(data, callback=disturb)
        assert data.engine.n_restarts >= 2
    finally:
        tagger.release(data)
    np.testing.assert_array_equal(weights(tagger), undisturbed)
    pauses = np.diff(waits)
    print(f"after kill -9: {pauses[2]:.1f} s, after the loss of a node: {pauses[6]:.1f} s")
    assert pauses.max() < 120  # it must not hang


def test_files_are_tagged_on_the_cluster(nodes, source, tmp_path):
    from tagloom.cluster import RayEngine

    engine = RayEngine(nodes.address, 2)
    try:
        assert dict(engine.map(len, [("a",), ("bcd",)])) == {0: 1, 1: 3}
    finally:
        engine.close()


def test_no_cluster_at_the_address(source):
    import ray

    assert not ray.is_initialized()
    with pytest.raises(tl.errors.ParameterError) as caught:
        make(cluster="127.0.0.1:1").fit(source)
    assert caught.value.parameter == "cluster"
    assert "127.0.0.1:1" in caught.value.found
