"""Recipes: the shipped ones are valid and match the paper's table; overrides; clear errors."""

import pytest

from nispa.errors import NispaError
from nispa.experiment import recipe

TABLE = {  # the paper's hyperparameter table: lr, batch, e, a_f, k, d
    "ef-mnist": (0.01, 512, 5, 0.75, 30, 0.2),
    "cifar100": (0.002, 64, 5, 2.5, 30, 0.1),
    "cifar10": (0.002, 128, 5, 0.75, 30, 0.1),
    "permuted-mnist-10": (0.01, 1024, 2, 0.75, 40, 0.1),
    "permuted-mnist-100": (0.01, 1024, 3, 0.75, 40, 0.1),
    "permuted-mnist-2": (0.01, 256, 5, 0.5, 40, 0.25),
}


REPLAY = {  # the same table's Replay rows: lr, batch, e, a_f, k, d, lambda
    ("mnist", 10): (0.05, 512, 3, 0.5, 30, 0.1, 5),
    ("ef-mnist", 10): (0.05, 128, 5, 1.5, 30, 0.3, 0.5),
    ("cifar10", 10): (0.001, 256, 5, 2, 40, 0.1, 1),
    ("mnist", 50): (0.05, 64, 3, 1, 30, 0.1, 5),
    ("ef-mnist", 50): (0.1, 256, 5, 2.5, 30, 0.3, 0.5),
    ("cifar10", 50): (0.001, 256, 5, 1, 40, 0.1, 7.5),
    ("mnist", 100): (0.1, 256, 5, 0.5, 30, 0.1, 5),
    ("ef-mnist", 100): (0.05, 128, 5, 2, 30, 0.3, 1),
    ("cifar10", 100): (0.002, 512, 5, 2, 40, 0.1, 5),
}


@pytest.mark.parametrize("name", recipe.names())
def test_every_shipped_recipe_is_valid(name: str) -> None:
    found = recipe.find(name, None)
    assert found.note
    assert "lr" in found.hyperparameters


@pytest.mark.parametrize("name", TABLE)
def test_recipes_are_the_rows_of_the_papers_table(name: str) -> None:
    found = recipe.find(name, None)
    h = found.hyperparameters
    row = (h["lr"], h["batch_size"], h["phase_epochs"], h["accuracy_loss"], h["tau_period"])
    assert (*row, found.network.density) == TABLE[name]


@pytest.mark.parametrize(("stream", "per_class"), REPLAY)
def test_replay_recipes_are_the_rows_of_the_papers_table(stream: str, per_class: int) -> None:
    found = recipe.find(stream, "nispa-replay", [f"per_class={per_class}"])
    assert found == recipe.find(f"{stream}.nispa-replay-{per_class}", None)
    h = found.hyperparameters
    row = (h["lr"], h["batch_size"], h["phase_epochs"], h["accuracy_loss"], h["tau_period"])
    assert (*row, found.network.density, h["replay_weight"]) == REPLAY[stream, per_class]
    assert h["per_class"] == per_class
    assert h["min_phases"] == (3 if stream == "mnist" else 5)
    assert h["optimizer"] == ("adam" if stream == "cifar10" else "sgd")
    assert ("normalise" in found.stream.options) == (stream == "cifar10")


def test_a_memory_without_a_row_of_its_own_takes_the_row_for_100() -> None:
    found = recipe.find("mnist", "nispa-replay", ["per_class=20"])
    assert found.hyperparameters["per_class"] == 20
    assert found.hyperparameters["lr"] == 0.1
    assert recipe.find("mnist", "nispa-replay") == recipe.find("mnist.nispa-replay-100", None)


def test_overrides_reach_every_section() -> None:
    found = recipe.find("digits", None, ["lr=0.5", "network.density=0.7", "growth=novel"])
    assert found.hyperparameters["lr"] == 0.5
    assert found.hyperparameters["growth"] == "novel"
    assert found.network.density == 0.7


def test_as_authors_sets_every_switch() -> None:
    found = recipe.find("ef-mnist", None, as_authors=True)
    assert found.network.init == "authors"
    assert found.hyperparameters["selection"] == "all-units"
    assert found.hyperparameters["masking"] == "zero"


def test_as_authors_leaves_out_switches_that_a_method_does_not_have() -> None:
    found = recipe.find("mnist", "nispa-replay", as_authors=True)
    assert found.hyperparameters["selection"] == "all-units"
    assert found.network.init == "authors"
    assert recipe.find("digits", "stl", as_authors=True).network.init == "authors"


def test_another_method_replaces_the_whole_method_section() -> None:
    found = recipe.find("digits", "stl", ["epochs=3"])
    assert found.method["name"] == "stl"
    assert "tau_period" not in found.method


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["lrr=1"], ["lrr", "did you mean 'lr'"]),
        (["network.densty=1"], ["network.densty", "did you mean 'density'"]),
        (["lr=fast"], ["lr", "'fast'"]),
        (["growth=wild"], ["growth", "wild"]),
        (["nonsense"], ["nonsense", "name=value"]),
        (["network.kind=rnn"], ["network.kind", "rnn"]),
    ],
)
def test_wrong_settings_are_one_clear_line(overrides: list[str], words: list[str]) -> None:
    with pytest.raises(NispaError) as error:
        recipe.find("digits", None, overrides)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(NispaError, match="did you mean 'digits'"):
        recipe.find("digit", None)
    with pytest.raises(NispaError, match="did you mean 'nispa'"):
        recipe.find("digits", "nipsa")
