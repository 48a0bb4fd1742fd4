"""STL-ISO and Joint: what they know beforehand, and what they make of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from nispa.data import streams
from nispa.data.task import Stream
from nispa.errors import NispaError
from nispa.experiment import recipe
from nispa.experiment.folder import Config, prepare, read_results
from nispa.experiment.run import run
from nispa.files import load, read, save
from nispa.methods.joint import Joint, together
from nispa.methods.stl_iso import STLIso
from nispa.network import cnn, mlp


@pytest.fixture(scope="module")
def stream() -> Stream:
    return streams.digits(subset=0.3)


def net(density: float = 0.5) -> Any:
    return mlp((1, 8, 8), [20, 20], classes=10, density=density)


def test_all_stl_iso_networks_together_have_the_connections_of_one(stream: Stream) -> None:
    learner = STLIso(net(), epochs=1)
    learner.foresee(stream)
    for task in stream:
        learner.learn(task)
    whole = net().wiring.connections
    for i, connections in enumerate(whole):
        together = sum(n.wiring.connections[i].live for n in learner.networks)
        assert abs(together - connections.live) <= len(stream)  # each network's count is rounded
    assert learner.hyperparameters()["shares"] == 5


def test_a_first_convolution_stays_dense() -> None:
    learner = STLIso(cnn((1, 8, 8), (4, 4), (9,), classes=10, density=0.5, pool_after=(2,)), shares=5)
    assert learner.network.wiring.connections[0].density == 1
    assert learner.network.wiring.connections[1].density == pytest.approx(0.1, abs=0.05)


def test_stl_iso_must_know_how_many_tasks_there_are(stream: Stream, tmp_path: Path) -> None:
    with pytest.raises(NispaError, match="foresee"):
        STLIso(net()).learn(stream[0])
    told = STLIso(net(), epochs=1, shares=2)
    told.foresee(stream)  # what the caller said goes first
    assert told.network.shape.density == 0.25
    told.learn(stream[0])
    save(told, tmp_path / "iso.nispa")
    again = load(tmp_path / "iso.nispa")
    assert again.network.shape.density == 0.25
    again.learn(stream[1])
    assert again.network.fresh(1).shape.density == 0.25


def test_joint_learns_the_foreseen_stream_at_once(stream: Stream) -> None:
    learner = Joint(net(1), epochs=3, patience=None)
    learner.foresee(stream)
    records = [learner.learn(stream[0])]
    weights = [w.copy() for _, w, _ in learner.network.snapshot()]
    records += [learner.learn(task) for task in list(stream)[1:]]
    assert [record.samples for record in records] == [3 * sum(len(t.train) for t in stream), 0, 0, 0, 0]
    assert all((a == b).all() for a, (_, b, _) in zip(weights, learner.network.snapshot(), strict=True))
    assert all(learner.accuracy(task.test, j) > 0.7 for j, task in enumerate(stream))  # type: ignore[arg-type]


def test_joint_refuses_another_stream(stream: Stream) -> None:
    learner = Joint(net(1), epochs=1)
    learner.foresee(stream)
    with pytest.raises(NispaError, match="not task 0 of the stream"):
        learner.learn(stream[3])


def test_joint_without_a_stream_learns_all_tasks_so_far_and_goes_on_from_a_file(
    stream: Stream, tmp_path: Path
) -> None:
    learner, other = Joint(net(1), epochs=2, patience=None), Joint(net(1), epochs=2, patience=None)
    for task in list(stream)[:2]:
        learner.learn(task)
        other.learn(task)
        save(other, tmp_path / "joint.nispa")
        other = load(tmp_path / "joint.nispa")  # type: ignore[assignment]
    sizes = [len(task.train) for task in stream]
    assert [r.samples for r in learner.tasks] == [2 * sizes[0], 2 * (sizes[0] + sizes[1])]
    for (_, one, _), (_, two, _) in zip(learner.network.snapshot(), other.network.snapshot(), strict=True):
        assert one.tobytes() == two.tobytes()


def test_every_sample_answers_among_its_own_tasks_outputs(stream: Stream) -> None:
    """The loss of a mixed batch is the mean of each sample's own task's cross-entropy."""
    learner = Joint(net(1))
    everything = together([task.train for task in stream])
    rows = torch.randperm(len(everything))[:30]
    logits, labels = learner.network(everything.batch(rows)).detach(), everything.labels[rows]
    masked = learner.mask(logits, [task.classes for task in stream], labels)
    by_hand = torch.stack(
        [
            F.cross_entropy(row[[y // 2 * 2, y // 2 * 2 + 1]][None], torch.tensor([y % 2]))
            for row, y in zip(logits, labels.tolist(), strict=True)
        ]
    )
    torch.testing.assert_close(F.cross_entropy(masked, labels), by_hand.mean())


def test_without_masking_every_output_takes_part(stream: Stream) -> None:
    class Bound(Joint):
        masking = "none"

    learner = Bound(net(1), epochs=1)
    learner.foresee(stream)
    learner.learn(stream[0])
    assert bool(torch.isfinite(learner.logits(torch.rand(3, 1, 8, 8), 0)).all())


def test_samples_that_are_scaled_differently_are_not_joined(stream: Stream) -> None:
    part = stream[0].train
    with pytest.raises(NispaError, match="scaled differently"):
        together([part, type(part)(part.inputs, part.labels, torch.tensor([2.0]), None)])


@pytest.mark.parametrize("method", ["joint", "stl-iso", "ewc", "clnp"])
def test_a_run_stopped_between_tasks_goes_on_to_the_same_end(method: str, tmp_path: Path) -> None:
    """Through the runner, which shows the stream to bounds again after every start."""
    settings = ["network.hidden=[12]", "epochs=2", "stream.options.subset=0.3"]
    config = Config(recipe.find("digits", method, settings), 0, "reference", 1)

    class StopError(Exception):
        pass

    def stop(event: dict[str, Any]) -> None:
        if event["event"] == "begin" and event["task"] == 2:
            raise StopError

    for name in ("whole", "stopped"):
        prepare(tmp_path / name, config)
    run(tmp_path / "whole")
    with pytest.raises(StopError):
        run(tmp_path / "stopped", stop)
    run(tmp_path / "stopped")
    whole, stopped = (read(tmp_path / name / "model.nispa")[0].tensors for name in ("whole", "stopped"))
    assert whole.keys() == stopped.keys()
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)
    same = [read_results(tmp_path / name)["accuracy"] for name in ("whole", "stopped")]
    assert same[0] == same[1]
