"""The replay memory: a fixed total, shared equally, seeded, as it came, and in files."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nispa.data.samples import Samples
from nispa.data.task import Task
from nispa.errors import NispaError
from nispa.memory import Memory
from nispa.network import mlp


def task(classes: tuple[int, ...], each: int = 40, side: int = 3) -> Task:
    """Every sample's pixels tell its class and its number in the class; validation samples add 200."""
    labels = torch.tensor(classes).repeat_interleave(each)
    inputs = torch.zeros(len(labels), 1, side, side, dtype=torch.uint8)
    inputs[:, 0, 0, 0], inputs[:, 0, 0, 1] = labels, torch.arange(each).repeat(len(classes))
    return Task("made", classes, Samples(inputs, labels), Samples(inputs + 200, labels))


@settings(max_examples=60, deadline=None)
@given(
    per_class=st.integers(1, 20),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
)
def test_every_class_seen_has_the_same_number(per_class: int, sizes: list[int], seed: int) -> None:
    memory, first, outputs = Memory(per_class), 0, sum(sizes)
    for number, size in enumerate(sizes):
        classes = tuple(range(first, first + size))
        memory.add(task(classes, each=200), outputs=outputs, seed=seed, number=number)
        first += size
        assert memory.counts() == dict.fromkeys(range(first), per_class * outputs // first)
        assert memory.samples is not None
        assert len(memory) <= per_class * outputs
        pixels = memory.samples.inputs[:, 0, 0]
        assert torch.equal(
            pixels[:, 0].long(), memory.samples.labels
        )  # nobody has another's label, none validates
        assert len(torch.unique(pixels[:, :2], dim=0)) == len(memory)  # nobody is there twice
        assert memory.samples.inputs.dtype == torch.uint8


def test_shrinking_keeps_a_part_of_what_was_there() -> None:
    memory = Memory(5)
    memory.add(task((0, 1)), outputs=4, seed=3, number=0)
    assert memory.samples is not None
    before = {tuple(row.flatten().tolist()) for row in memory.samples.inputs}
    memory.add(task((2, 3)), outputs=4, seed=3, number=1)
    old = memory.samples.take((memory.samples.labels < 2).nonzero()[:, 0])
    assert {tuple(row.flatten().tolist()) for row in old.inputs} < before


def test_the_choice_is_random_and_the_seeds() -> None:
    def chosen(seed: int, number: int = 0) -> list[int]:
        memory = Memory(5)
        memory.add(task((0, 1)), outputs=4, seed=seed, number=number)
        assert memory.samples is not None
        return memory.samples.inputs[:, 0, 0, 1].tolist()

    assert chosen(0) == chosen(0)
    assert chosen(0) != chosen(1)
    assert chosen(0) != chosen(0, number=1)
    often = np.bincount(np.concatenate([chosen(seed) for seed in range(400)]), minlength=40)
    assert often.min() > 140  # each of 40 samples: 10 of 40 chosen, two classes, 400 seeds: 200 times
    assert often.max() < 260


def test_a_class_with_too_few_samples_gives_all_it_has() -> None:
    memory = Memory(20)
    memory.add(task((0, 1), each=4), outputs=3, seed=0, number=0)
    memory.add(task((2,), each=100), outputs=3, seed=0, number=1)
    assert memory.counts() == {0: 4, 1: 4, 2: 20}


def test_an_order_rules_which_samples_stay() -> None:
    memory = Memory(4)
    memory.add(
        task((0, 1)), outputs=3, seed=0, number=0, order=lambda samples, n: torch.arange(39, 39 - n, -1)
    )
    memory.add(task((2,)), outputs=3, seed=0, number=1, order=lambda samples, n: torch.arange(n))
    assert memory.samples is not None
    assert memory.samples.inputs[:, 0, 0, 1].tolist() == [39, 38, 37, 36] * 2 + [0, 1, 2, 3]


def test_a_memory_for_nobody_is_refused() -> None:
    with pytest.raises(NispaError, match="per_class is 0"):
        Memory(0)


def test_outputs_that_were_added_make_room_and_count_as_0_in_older_logits() -> None:
    network = mlp((1, 3, 3), [4], classes=2, density=1.0)
    memory = Memory(5)
    memory.add(task((0, 1)), outputs=2, seed=0, number=0, answers=network)
    assert memory.logits is not None
    stored = memory.logits
    network.add_outputs(2)
    memory.add(task((2, 3)), outputs=4, seed=0, number=1, answers=network)
    assert memory.counts() == {0: 5, 1: 5, 2: 5, 3: 5}
    assert torch.equal(memory.logits[:10, :2], stored)
    assert not memory.logits[:10, 2:].any()


def test_draws_are_without_repetition_and_the_whole_memory_if_it_is_small() -> None:
    memory = Memory(5)
    memory.add(task((0, 1)), outputs=4, seed=0, number=0)
    rng = np.random.default_rng(0)
    assert len(set(memory.draw(7, rng).tolist())) == 7
    assert sorted(memory.draw(64, rng).tolist()) == list(range(20))


def test_tensors_bring_it_back_and_damage_is_refused() -> None:
    network = mlp((1, 3, 3), [4], classes=3, density=1.0)
    memory = Memory(5)
    memory.add(task((0, 1)), outputs=4, seed=0, number=0, answers=network)
    assert memory.logits is not None
    assert memory.samples is not None
    assert torch.equal(memory.logits, network(memory.samples.batch(torch.arange(20))))
    again = Memory(5)
    again.load(memory.tensors(), network)
    assert again.samples is not None
    assert again.logits is not None
    assert torch.equal(again.samples.inputs, memory.samples.inputs)
    assert torch.equal(again.logits, memory.logits)
    for name, damaged in (
        ("memory.labels", torch.tensor([0, 1])),
        ("memory.labels", memory.samples.labels + 3),
        ("memory.inputs", memory.samples.inputs[:, :, :2]),
        ("memory.inputs", memory.samples.inputs.double()),
        ("memory.logits", memory.logits[:3]),
    ):
        with pytest.raises(NispaError, match="damaged"):
            Memory(5).load({**memory.tensors(), name: damaged}, network)
