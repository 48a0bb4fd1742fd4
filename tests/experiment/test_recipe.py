"""Recipes: the shipped ones are valid and match the paper's table; overrides; clear errors."""

import pytest

from nispa.data.streams import build
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


# The authors' scripts: lr, batch, epochs, then the method's own.
BASELINES: dict[str, dict[str, tuple[float, ...]]] = {
    "ewc": {
        "ef-mnist": (0.01, 256, 20, 10000, 1000),
        "cifar10": (0.001, 128, 50, 5000, 2000),
        "cifar100": (0.001, 32, 50, 20000, 1000),
    },
    "si": {
        "ef-mnist": (0.01, 512, 20, 100, 0.1),
        "cifar10": (0.001, 256, 50, 10, 0.1),
        "cifar100": (0.001, 32, 50, 1000, 0.1),
    },
    "mas": {
        "ef-mnist": (0.01, 512, 20, 1000),
        "cifar10": (0.001, 256, 50, 1),
        "cifar100": (0.001, 32, 50, 1000),
    },
    "clnp": {
        "ef-mnist": (0.01, 512, 20, 1e-5, 0.5, 0.02),
        "cifar10": (0.001, 128, 50, 1e-4, 0.75, 0.02),
        "cifar100": (0.001, 32, 50, 1e-5, 1, 0.02),
    },
    "stl": {"ef-mnist": (0.01, 128, 20), "cifar10": (0.001, 256, 40), "cifar100": (0.001, 64, 40)},
    "stl-iso": {"ef-mnist": (0.01, 128, 20), "cifar10": (0.001, 256, 40), "cifar100": (0.001, 64, 40)},
}
OWN = {"ewc": ("strength", "samples"), "si": ("strength", "damping"), "mas": ("strength",)}
OWN |= {"clnp": ("l1", "margin", "threshold_step"), "stl": (), "stl-iso": ()}


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


@pytest.mark.parametrize("name", TABLE)
def test_the_papers_recipes_take_pixels_as_they_are(name: str) -> None:
    """No augmentation, no normalisation, a tenth validates (docs/fidelity.md, rows 16 and 17)."""
    stream = recipe.find(name, None).stream
    assert set(stream.options) <= {"tasks", "fraction"}


def test_small_data_are_given_an_a_f_of_two_samples_at_least() -> None:
    """docs/fidelity.md, row 24."""
    found = recipe.find("digits", None)
    fewest = min(len(task.validation) for task in build(found.stream.name, **found.stream.options))
    assert found.hyperparameters["accuracy_loss"] >= 2 * 100 / fewest


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("stream", ["ef-mnist", "cifar10", "cifar100"])
def test_baselines_have_the_values_of_the_authors_scripts(method: str, stream: str) -> None:
    found = recipe.find(stream, method)
    h = found.hyperparameters
    row = tuple(h[name] for name in ("lr", "batch_size", "epochs", *OWN[method]))
    assert row == BASELINES[method][stream]
    assert h["optimizer"] == "adam"
    if method in ("ewc", "si", "mas"):
        assert h["patience"] == (5 if (method, stream) == ("mas", "cifar100") else 3)
    sparse = 0.2 if stream == "ef-mnist" else 0.1
    assert found.network.density == (sparse if method.startswith("stl") else 1)
    assert (found.stream, found.network.kind) == (
        recipe.find(stream, None).stream,
        "mlp" if stream == "ef-mnist" else "cnn",
    )


@pytest.mark.parametrize("stream", ["ef-mnist", "cifar10", "cifar100"])
def test_bounds_and_baselines_run_on_the_network_of_the_paper(stream: str) -> None:
    ours = recipe.find(stream, None).network
    for method in (*BASELINES, "finetune", "joint"):
        network = recipe.find(stream, method).network
        assert network.model_copy(update={"density": ours.density}) == ours


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


@pytest.mark.parametrize("stream", ["mnist", "ef-mnist", "cifar10"])
@pytest.mark.parametrize("method", recipe.SPARSE)
def test_rivals_have_nispa_replays_network_and_a_dense_one_under_their_name_with_d(
    stream: str, method: str
) -> None:
    replay, rival = recipe.find(stream, "nispa-replay"), recipe.find(stream, method)
    assert (rival.network, rival.stream) == (replay.network, replay.stream)
    assert rival.label == method
    dense = recipe.find(stream, f"{method}-d", ["lr=0.5"])
    assert dense.label == f"{method}-d"
    assert dense.network.density == 1
    assert dense.hyperparameters == {**rival.hyperparameters, "lr": 0.5}


def test_other_methods_have_no_dense_name() -> None:
    with pytest.raises(NispaError, match="unknown method 'nispa-d'"):
        recipe.find("mnist", "nispa-d")


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
