"""Teaching a model file: what it knew stays, bit for bit; undo, growth, release, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import nispa
from model.material import FEATURES, QUICK, blobs, small, taught
from nispa import NispaError
from nispa.model import Model
from nispa.model.lock import locked


def logits(model: Model, task: int = 0) -> torch.Tensor:
    """All answers of a task on fixed inputs."""
    inside = Model(model.path, model._copy())._known  # nothing that was computed before
    with torch.no_grad():
        return inside.part(task)(inside.batch(torch.from_numpy(blobs(99)[0])))


def test_a_task_is_learned_and_told(model: Model) -> None:
    assert [task.name for task in model.tasks] == ["task0", "task1"]
    for task in range(2):
        result = model.evaluate(blobs(task, seed=5), task=f"task{task}")
        assert result.accuracy > 0.9
        assert result.task_found > 0.9
    x, y = blobs(1, seed=7)
    answers = model.predict(x)
    assert sum(a.task == "task1" and a.label == str(c) for a, c in zip(answers, y, strict=True)) > 70
    assert all(len(a.answers) == 2 for a in answers)
    asked = model.predict(x, task="task0")
    assert {a.task for a in asked} == {"task0"}
    assert abs(sum(asked[0].answers[0].probabilities.values()) - 1) < 1e-5


def test_old_logits_keep_every_bit_when_more_is_learned(model: Model) -> None:
    before = [logits(model, task) for task in range(2)]
    model.learn(blobs(2, classes=3), name="task2", minutes=QUICK)
    again = nispa.open(model.path)
    for task, old in enumerate(before):
        assert torch.equal(old, logits(model, task))
        assert torch.equal(old, logits(again, task))
    assert all(f.kept and f.exact and f.difference == 0 for f in again.verify())


def test_undo_brings_back_the_file_byte_for_byte(tmp_path: Path) -> None:
    model = small(tmp_path / "a.nispa")
    fresh = model.path.read_bytes()
    model.learn(blobs(0), name="one", minutes=QUICK)
    one = [torch.clone(t) for t in model.network.state_dict().values()]
    answers = logits(model)
    model.learn(blobs(1), name="two", minutes=QUICK)
    assert nispa.open(model.path).undo() == "learned two"
    again = nispa.open(model.path)
    assert [task.name for task in again.tasks] == ["one"]
    assert torch.equal(logits(again), answers)
    assert len(one) == len(list(again.network.state_dict().values()))
    with pytest.raises(NispaError, match="nothing to take back"):
        again.undo()
    single = small(tmp_path / "b.nispa")
    single.learn(blobs(0), name="one", minutes=QUICK)
    single.undo()
    assert single.path.read_bytes() == fresh
    single.learn(blobs(0), name="one", minutes=QUICK)  # what was taken back can be learned again


def test_growth_changes_no_bit_of_old_answers(model: Model) -> None:
    before, room = [logits(model, task) for task in range(2)], model.room()
    model.grow()
    again = nispa.open(model.path)
    assert again.room().units == [36, 36]
    assert again.room().outputs == 12
    assert all(a > b for a, b in zip(again.room().free, room.free, strict=True))
    for task, old in enumerate(before):
        assert torch.equal(old, logits(again, task))
    again.learn(blobs(3), name="after", minutes=QUICK)
    assert all(f.kept for f in again.verify())
    for task, old in enumerate(before):
        assert torch.equal(old, logits(again, task))


def test_a_growing_cnn_keeps_its_answers(tmp_path: Path) -> None:
    network = nispa.cnn(
        (1, 8, 8), (4, 6), (12,), classes=4, density=0.5, pool_after=(1, 2), engine="reference"
    )
    model = nispa.new(tmp_path / "cnn.nispa", like=network)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (60, 1, 8, 8), dtype=np.uint8), np.arange(60) % 2
    x[y == 1, :, :4] //= 4
    model.learn((x, y), name="bright", minutes=QUICK)
    inside = model._known
    values = torch.from_numpy(x)
    before = inside.part(0)(inside.batch(values))
    assert torch.allclose(before, model.network(inside.batch(values))[:, inside.outputs(0)], atol=1e-5)
    model.grow()
    assert model.network.shape.convolutions[0][0] == 6
    assert torch.equal(before, model._known.part(0)(model._known.batch(values)))
    assert all(f.kept for f in model.verify())


def test_full_is_refused_and_grow_makes_room(tmp_path: Path) -> None:
    model = taught(tmp_path / "full.nispa", tasks=2, classes=4)
    before = model.path.read_bytes()
    with pytest.raises(NispaError, match=r"is full: 2 classes need 2 outputs, 0 of 4 are free; give --grow"):
        model.learn(blobs(2), name="third")
    assert model.path.read_bytes() == before
    old = logits(model)
    model.learn(blobs(2), name="third", minutes=QUICK, grow=True)
    assert torch.equal(old, logits(model))
    model.undo()
    assert model.room().outputs == 4


def test_release_tells_who_loses_and_frees_units(model: Model) -> None:
    plan = model.release_preview(["task0"])
    untouched = model.path.read_bytes()
    spared = model.release_preview(["task0"], keep_shared=True)
    assert model.path.read_bytes() == untouched
    assert sum(spared.units) <= sum(plan.units)
    assert spared.losses == []
    answers = logits(model, 1)
    room = model.room()
    model.release(["task0"], keep_shared=True)
    assert torch.equal(answers, logits(model, 1))
    assert [f.kept for f in model.verify()] == [True]
    assert sum(model.room().free) == sum(room.free) + sum(spared.units)
    assert model.room().free_outputs == room.free_outputs + 2
    with pytest.raises(NispaError, match="task0"):
        model.predict(blobs(0)[0], task="task0")
    model.learn(blobs(4), name="task0", minutes=QUICK)
    assert [task.name for task in nispa.open(model.path).tasks] == ["task1", "task0"]
    assert torch.equal(answers, logits(model, 1))


def test_a_release_that_costs_another_task_says_so(model: Model) -> None:
    plan = model.release_preview(["task0"])
    changed = {loss.task for loss in plan.losses}
    old = logits(model, 1)
    model.release(["task0"])
    assert (not torch.equal(old, logits(model, 1))) == ("task1" in changed)
    if changed:
        assert "given up" in model.tasks[0].notes[0]
    model.undo()
    assert torch.equal(old, logits(model, 1))


def test_a_changed_unit_is_found_and_its_task_named(model: Model) -> None:
    layer, log = model.network.sparse_layers[0], model.network.wiring.became[1]
    row = int(np.flatnonzero(layer.units.numpy() == int(np.flatnonzero(log == 0)[0]))[0])
    layer.bias_store[row] += 1e-3
    found = {f.task: f for f in model.verify()}
    assert not found["task0"].units
    assert not found["task0"].kept
    with pytest.raises(NispaError, match="'task0' is not what it was"):
        model.learn(blobs(5), name="more")


def test_elsewhere_answers_are_compared_to_1e_5_and_it_says_so(model: Model) -> None:
    inside = model._known
    for i in inside.alive():
        other = inside.tasks[i].made.model_copy(update={"instructions": "ANOTHER"})
        inside.tasks[i] = inside.tasks[i].model_copy(update={"made": other})
    inside.logits[0] = inside.logits[0] * (1 + 3e-7)  # as another order of sums might
    assert [(f.kept, f.exact) for f in model.verify()] == [(True, False)] * 2
    inside.logits[0] = inside.logits[0] + 1e-3 * inside.logits[0].abs().max()
    assert [f.kept for f in model.verify()] == [False, True]


def test_the_wiring_stays_sound_through_all_changes(model: Model) -> None:
    nispa.checks.check_wiring(model.network.wiring, grown=False)
    model.grow()
    nispa.checks.check_wiring(model.network.wiring, grown=False)
    model.learn(blobs(2), name="third", minutes=QUICK)
    nispa.checks.check_wiring(model.network.wiring, grown=False)
    model.release(["task1"])
    nispa.checks.check_wiring(model.network.wiring, grown=False)
    for i in model.task_numbers:
        outputs = model._known.outputs(i)
        nispa.checks.check_no_path(model.network.wiring, model.network.wiring.stable, outputs)


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (
            blobs(1),
            {"name": "task1"},
            "is learned and cannot change; teach the new data as a task of its own",
        ),
        ((blobs(1)[0], np.zeros(80, int)), {"name": "x"}, "one class"),
        ((blobs(1)[0][:, :5], blobs(1)[1]), {"name": "x"}, "12 features"),
        ((blobs(1)[0] * np.nan, blobs(1)[1]), {"name": "x"}, "NaN"),
        ((blobs(1)[0], blobs(1)[1][:5]), {"name": "x"}, "80 inputs but 5 labels"),
        (blobs(1), {"name": "x", "minutes": -1}, "minutes is -1"),
        ("/nowhere", {}, "/nowhere does not exist"),
        ((blobs(1)[0][:3], np.array([0, 0, 1])), {"name": "x"}, "has 1 sample"),
    ],
)
def test_what_cannot_be_learned_is_one_line_and_changes_nothing(
    model: Model, data: object, options: dict[str, object], words: str
) -> None:
    before = model.path.read_bytes()
    with pytest.raises(NispaError, match=words) as caught:
        model.learn(data, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert model.path.read_bytes() == before
    assert sorted(p.name for p in model.path.parent.iterdir() if p.name != "cache") == ["model.nispa"]


def test_a_second_process_is_refused(model: Model) -> None:
    code = (
        "import sys, nispa\nm = nispa.open(sys.argv[1])\n"
        "try: m.grow()\nexcept nispa.NispaError as e: print(e); sys.exit(3)"
    )
    with locked(model.path):
        done = subprocess.run([sys.executable, "-c", code, str(model.path)], capture_output=True, text=True)
    assert done.returncode == 3
    assert "is being changed by another process" in done.stdout
    stale = nispa.open(model.path)
    model.grow()
    with pytest.raises(NispaError, match="changed by another process; open it again"):
        stale.grow()


def test_rare_classes_are_shown_more_often_and_still_told(tmp_path: Path) -> None:
    x, y = blobs(0, each=60)
    keep = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:6]])
    model, events = small(tmp_path / "rare.nispa"), []
    model.learn(
        (x[keep], y[keep]), name="rare", classes=["often", "rare"], minutes=QUICK, report=events.append
    )
    assert any("few samples of rare" in e.get("text", "") for e in events)
    result = model.predict(blobs(0, seed=3)[0], "rare")
    told = np.array([a.label == "rare" for a in result])
    assert told[40:].mean() > 0.7


def test_a_task_in_a_hurry_does_not_take_the_whole_network(tmp_path: Path) -> None:
    model = small(tmp_path / "hurry.nispa", classes=20, units=60)
    info = model.learn(blobs(0), name="first", minutes=0.0001)
    assert info.accuracy > 0.8
    assert max(info.units) < 40, info.units
    assert model.room().lacks(2) is None


def test_noise_is_warned_about(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model, events = small(tmp_path / "noise.nispa"), []
    data = rng.standard_normal((400, FEATURES)).astype(np.float32), rng.integers(0, 2, 400)
    model.learn(data, name="noise", minutes=QUICK, report=events.append)
    reached = model.tasks[0].accuracy
    warned = any("no better than guessing" in e.get("text", "") for e in events if e["event"] == "warning")
    assert warned == (reached <= 0.5 + 2 * (0.25 / model.tasks[0].validation) ** 0.5)


def test_inspect_is_plain_json(model: Model) -> None:
    about = json.loads(json.dumps(model.inspect()))
    assert about["room"]["fits"] > 0
    assert [task["name"] for task in about["tasks"]] == ["task0", "task1"]
    assert about["bytes"] == os.path.getsize(model.path)


def test_new_refuses_what_cannot_be_taught(tmp_path: Path) -> None:
    from torch import nn

    path = tmp_path / "x.nispa"
    with pytest.raises(NispaError, match="BatchNorm or residual sums"):
        nispa.new(path, like="resnet18", input="3x32x32")
    with pytest.raises(NispaError, match="BatchNorm1d cannot be taught yet"):
        nispa.new(path, like=nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)), input=4)

    class Residual(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    with pytest.raises(NispaError, match=r"no nn\.Sequential"):
        nispa.new(path, like=Residual(), input=4)
    with pytest.raises(NispaError, match="did you mean 'cnn'"):
        nispa.new(path, like="cnnn", input="3x32x32")
    with pytest.raises(NispaError, match="'3x32x' is no size"):
        nispa.new(path, like="cnn", input="3x32x")
    chain = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 10)
    )
    model = nispa.new(path, like=chain, input=(3, 8, 8), classes=7)
    assert model.network.shape.convolutions == ((6, 3, 2),)
    with pytest.raises(NispaError, match="exists"):
        nispa.new(path, like="cnn", input="3x32x32")
