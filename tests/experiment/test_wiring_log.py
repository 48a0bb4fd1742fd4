"""The log of the wiring: what is read is what was; resumed, damaged, bounded."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nispa
from nispa.errors import NispaError
from nispa.experiment import wiring_log
from nispa.experiment.wiring_log import WiringLog, read_wiring, rewiring_learner
from nispa.methods import METHODS, method_class
from nispa.wiring import Wiring


def learned(folder: Path, conv: bool = False) -> tuple[WiringLog, list[tuple[str, Wiring]]]:
    """Two tasks learned with every rewiring recorded; the masks that were seen."""
    stream = nispa.streams.digits()
    if conv:
        net = nispa.cnn((1, 8, 8), [4, 6], [20], classes=10, density=0.3, pool_after=[2])
    else:
        net = nispa.mlp((1, 8, 8), [20, 12], classes=10, density=0.3)
    learner = nispa.NISPA(net, phase_epochs=1, tau_period=4, accuracy_loss=30)
    found = rewiring_learner(learner)
    assert found is learner
    log, seen = WiringLog(folder, 0), []

    def note(kind: str, task: int, phase: int, protected: list[np.ndarray]) -> None:
        wiring = learner.wiring
        log.record(kind, task, phase, wiring, protected)
        masks = [c.mask.copy() for c in wiring.connections]
        seen.append((kind, masks, [bits.copy() for bits in protected], [b.copy() for b in wiring.became]))

    def report(event: dict[str, object]) -> None:
        if event["event"] == "phase":
            assert learner.progress is not None
            note("phase", int(str(event["task"])), int(str(event["phase"])), learner.progress.protected)
        if event["event"] == "task":
            note("task", int(str(event["task"])), 0, learner.wiring.stable)

    note("start", 0, 0, learner.wiring.stable)
    for task in list(stream)[:2]:
        learner.learn(task, report=report)
    return log, seen


@pytest.mark.parametrize("conv", [False, True])
def test_what_is_read_is_what_was(tmp_path: Path, conv: bool) -> None:
    _, seen = learned(tmp_path, conv)
    frames = list(read_wiring(tmp_path))
    assert [frame.kind for frame in frames] == [kind for kind, *_ in seen]
    assert len(frames) >= 7
    for frame, (_, masks, protected, became) in zip(frames, seen, strict=True):
        for counts, mask, live in zip(frame.counts, masks, frame.live, strict=True):
            area = mask.shape[1] // counts.shape[1]
            by_hand = mask.reshape(mask.shape[0], counts.shape[1], area).sum(2)
            assert np.array_equal(counts, by_hand)
            assert live == mask.sum() == counts.sum()
        assert all(np.array_equal(a, b) for a, b in zip(frame.protected, protected, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(frame.became, became, strict=True))
    if conv:
        assert frames[0].counts[2].max() > 1  # 6 filters of 4x4 pixels: sixteen columns a unit


def test_a_log_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    learned(tmp_path)
    path = tmp_path / "wiring.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    again = WiringLog(tmp_path, len(b"".join(lines[:3])))
    assert path.read_bytes() == b"".join(lines[:3])
    third = list(read_wiring(tmp_path))[2]
    assert all(np.array_equal(a, b) for a, b in zip(again.counts, third.counts, strict=True))


@pytest.mark.parametrize("damage", ["shorter", "flipped", "gone", "zeros"])
def test_a_lost_log_starts_anew_and_never_stops_a_run(tmp_path: Path, damage: str) -> None:
    learned(tmp_path)
    path = tmp_path / "wiring.jsonl"
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        middle = len(whole) // 2
        other = {
            "shorter": b"",
            "flipped": b"\x07" + whole[middle + 1 :],
            "zeros": bytes(len(whole) - middle),
        }
        path.write_bytes(whole[:middle] + other[damage])
    log = WiringLog(tmp_path, len(whole))
    net = nispa.mlp((1, 8, 8), [20, 12], classes=10, density=0.3)
    log.record("task", 1, 0, net.wiring, net.wiring.stable)
    (frame,) = read_wiring(tmp_path)
    assert np.array_equal(frame.counts[0], net.wiring.connections[0].mask)


def test_a_line_being_written_is_left_alone(tmp_path: Path) -> None:
    _, seen = learned(tmp_path)
    path = tmp_path / "wiring.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert len(list(read_wiring(tmp_path))) == len(seen) - 1


def test_a_large_layer_is_sampled_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring_log, "PAIRS", 500)
    _, seen = learned(tmp_path)
    frame = next(read_wiring(tmp_path))
    assert frame.strides == [3, 1, 1]  # 64 x 20 pairs
    assert np.array_equal(frame.counts[0], seen[0][1][0][:, ::3])
    assert frame.live[0] == seen[0][1][0].sum()


@settings(max_examples=60, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3))
def test_damage_is_one_line_with_the_files_name(
    changes: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    net = nispa.mlp(6, [4], classes=2, density=0.5)
    log = WiringLog(folder, 0)
    log.record("start", 0, 0, net.wiring, net.wiring.stable)
    path = folder / "wiring.jsonl"
    text = bytearray(path.read_bytes())
    for place, value in changes:
        text[place % (len(text) - 1)] = value
    path.write_bytes(bytes(text))
    said = ""
    try:
        list(read_wiring(folder))
    except NispaError as error:
        said = str(error)
    assert said == "" or ("wiring.jsonl" in said and "\n" not in said)


def test_a_line_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    import base64
    import zlib

    net = nispa.mlp(6, [4], classes=2, density=0.5)
    log = WiringLog(tmp_path, 0)
    log.record("start", 0, 0, net.wiring, net.wiring.stable)
    path = tmp_path / "wiring.jsonl"
    line = json.loads(path.read_text())
    line["change"][0] = base64.b64encode(zlib.compress(bytes(50_000_000))).decode()
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(NispaError, match=r"wiring\.jsonl, line 1"):
        list(read_wiring(tmp_path))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_built_on_nispa_is_followed(name: str) -> None:
    net = nispa.mlp(6, [4], classes=2, density=0.5)
    found = rewiring_learner(method_class(name)(net))
    assert (found is not None) == name.startswith("nispa")
    assert found is None or found.network is net
