"""Model files: what comes back, and that damage of any kind is one clear line."""

import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from safetensors.torch import save_file
from small import network, shape_of, stream

from nispa.algorithm import NISPA
from nispa.checks import check_same
from nispa.errors import NispaError
from nispa.files import _digest, load, read, save
from nispa.learner import Learner


def learned(kind: str = "mlp", path: Path | None = None) -> Learner:
    """One task learned and, if there is a path, a file written in the middle of the second."""
    tasks = stream(shape=shape_of(kind))
    learner = NISPA(network(kind, 6), phase_epochs=1, accuracy_loss=30.0, tau_period=4, batch_size=8)
    learner.learn(tasks[0])
    if path is not None:
        learner.learn(tasks[1], checkpoint=lambda: save(learner, path))
    return learner


@pytest.fixture(scope="module", params=["mlp", "cnn"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / f"{request.param}.nispa"
    learned(request.param, path)
    return path


def refused(path: Path, content: bytes | None = None) -> str:
    """Reading it is one line that names the file."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NispaError) as found:
        load(path)
    said = str(found.value)
    assert str(path) in said
    assert "\n" not in said
    return said


def test_a_file_is_safetensors_and_json_and_says_what_it_is(written: Path) -> None:
    with safe_open(str(written), framework="pt") as file:
        description = json.loads(file.metadata()["nispa"])
    assert description["format"] == "nispa-learner"
    assert description["method"] == "nispa"
    assert description["hyperparameters"]["tau_period"] == 4
    assert description["state"]["progress"]["task"] == 1


def test_a_loaded_learner_is_the_saved_one_and_learns_on(tmp_path: Path) -> None:
    learner, path = learned("cnn"), tmp_path / "a.nispa"
    save(learner, path, mine={"a": 1})
    loaded = load(path)
    check_same(loaded.state(), learner.state())
    assert loaded.hyperparameters() == learner.hyperparameters()
    assert read(path)[1]["extra"] == {"mine": {"a": 1}}
    for one in (learner, loaded):
        one.learn(stream(shape=shape_of("cnn"))[1])
    check_same(loaded.state(), learner.state())


def test_a_state_can_be_taken_in_the_first_phase(tmp_path: Path) -> None:
    """Before the first rewiring there is no model to go back to; the file knows."""
    learner = NISPA(network("mlp", 6), phase_epochs=2, accuracy_loss=30.0, tau_period=4)
    path = tmp_path / "early.nispa"

    def early(event: dict[str, Any]) -> None:
        if event["event"] == "epoch":
            save(learner, path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(stream()[0], report=early)
    loaded = load(path)
    loaded.learn(stream()[0])
    assert loaded.tasks[0].phases > 1


def test_only_live_weights_are_in_the_file(tmp_path: Path) -> None:
    learner = NISPA(network("mlp", 6, 0.1, hidden=(200, 200)))
    save(learner, tmp_path / "a.nispa")
    weights = 4 * learner.network.cost()["parameters"]["live"]
    masks = sum(c.mask.size for c in learner.wiring.connections) / 8
    assert (tmp_path / "a.nispa").stat().st_size < weights + masks + 8000


@pytest.mark.parametrize("share", [0, 0.001, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file(written: Path, tmp_path: Path, share: float) -> None:
    content = written.read_bytes()
    refused(tmp_path / "cut.nispa", content[: int(share * len(content))])


def test_more_bytes_than_there_should_be(written: Path, tmp_path: Path) -> None:
    refused(tmp_path / "long.nispa", written.read_bytes() + b"more")


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x95pickle",
        b"PK\x03\x04",
        b"\x89PNG\r\n",
        b"{}",
        struct.pack("<Q", 2**63) + b"{}",
        b"\n" * 99,
    ],
)
def test_a_foreign_file(tmp_path: Path, content: bytes) -> None:
    assert "damaged or foreign" in refused(tmp_path / "foreign", content)


def test_other_peoples_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(2)}, path)
    assert "not one of NISPA's" in refused(path)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "nowhere.nispa")
    refused(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(written: Path, tmp_path: Path) -> None:
    path = tmp_path / "secret.nispa"
    path.write_bytes(written.read_bytes())
    path.chmod(0)
    refused(path)


def test_a_newer_format_says_update(written: Path, tmp_path: Path) -> None:
    said = refused(tmp_path / "new.nispa", forged(written, lambda d: d.update(version=99)))
    assert "version 99" in said
    assert "update nispa" in said


def test_any_flipped_byte_is_noticed(written: Path, tmp_path: Path) -> None:
    """Hundreds of random mutations: a clear line, never another exception, never other content."""
    content, rng, path = written.read_bytes(), random.Random(0), tmp_path / "flipped.nispa"
    original = read(written)[0]
    noticed, said = 0, list[str]()
    header = 8 + struct.unpack("<Q", content[:8])[0]
    for trial in range(300):
        mutated = bytearray(content)
        for _ in range(rng.choice([1, 1, 1, 4])):
            place = rng.randrange(header if trial % 2 else len(content))
            mutated[place] ^= 1 << rng.randrange(8)
        path.write_bytes(mutated)
        try:
            state = read(path)[0]
        except NispaError as error:
            noticed += 1
            said.append(str(error))
        else:  # white space of the header, say
            check_same(state, original)
    assert noticed > 290
    assert not any("\n" in line for line in said)


def forged(written: Path, change: Any) -> bytes:
    """A file whose description was changed by someone who knows how to make the checksum fit."""
    with safe_open(str(written), framework="pt") as file:
        description = json.loads(file.metadata()["nispa"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(description)
    text = json.dumps(description)
    return bytes(to_bytes(tensors, {"nispa": text, "sha256": _digest(text, tensors)}))


NONSENSE = [None, -1, 10**18, 1.5, "x", [], {}, [None], {"a": 1}, True, float("nan")]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in some JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    return [path, *(found for key, item in items for found in leaves(item, (*path, key)))]


def nonsense_at(place: tuple[Any, ...], rng: random.Random) -> Callable[[Any], None]:
    """Puts nonsense at a place of some JSON, or takes what is there away."""

    def change(inside: Any) -> None:
        for key in place[:-1]:
            inside = inside[key]
        if rng.random() < 0.2:
            del inside[place[-1]]
        else:
            inside[place[-1]] = rng.choice(NONSENSE)

    return change


def test_any_forged_description_is_refused_in_one_line_or_makes_a_sound_learner(
    written: Path, tmp_path: Path
) -> None:
    with safe_open(str(written), framework="pt") as file:
        places = leaves(json.loads(file.metadata()["nispa"]))[1:]
    rng, path, said = random.Random(1), tmp_path / "forged.nispa", list[str]()
    for _ in range(400):
        path.write_bytes(forged(written, nonsense_at(rng.choice(places), rng)))
        try:
            learner = load(path)
        except NispaError as error:
            said.append(str(error))
        else:
            learner.logits(torch.zeros(2, *learner.network.shape.input), 0)
    assert len(said) > 150
    assert all(str(path) in line and "\n" not in line for line in said)


def test_forged_tensors_are_refused(written: Path, tmp_path: Path) -> None:
    with safe_open(str(written), framework="pt") as file:
        text = file.metadata()["nispa"]
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, tensor in tensors.items():
        changed = [None, tensor[:-1], torch.cat([tensor, tensor]), tensor.to(torch.float64)]
        if tensor.dtype == torch.float32:
            changed.append(torch.full_like(tensor, float("nan")))
        for other in changed:
            forged_set = {**tensors, name: other} if other is not None else {**tensors}
            if other is None:
                del forged_set[name]
            forged_set = {k: v.contiguous() for k, v in forged_set.items()}
            content = to_bytes(forged_set, {"nispa": text, "sha256": _digest(text, forged_set)})
            assert name in refused(tmp_path / "forged.nispa", bytes(content))


def test_a_description_nested_without_end(tmp_path: Path) -> None:
    tensors = {"a": torch.zeros(1)}
    text = "[" * 100_000
    content = to_bytes(tensors, {"nispa": text, "sha256": _digest(text, tensors)})
    assert "not readable" in refused(tmp_path / "deep.nispa", bytes(content))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.nispa"
    learner = learned()
    save(learner, path)
    before = path.read_bytes()
    with pytest.raises(NispaError, match="cannot write"):
        save(learner, tmp_path / "nowhere" / "a.nispa")
    with pytest.raises(TypeError):
        save(learner, path, extra=object())
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.nispa"]
