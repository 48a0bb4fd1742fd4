"""Sparse layers: what is stored, in what order, and what training can reach."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import FEATURES, IMAGE, network

from nispa.engine.reference import dense_bias, dense_weight
from nispa.layers import SparseConv2d, SparseLayer, SparseLinear


@st.composite
def laid_out(draw: st.DrawFn) -> tuple[SparseLayer, dict[str, Any]]:
    targets, columns, size = (
        draw(st.integers(1, 7)),
        draw(st.integers(1, 7)),
        draw(st.sampled_from([0, 1, 3])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    mask = rng.random((targets, columns)) < draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    layer: SparseLayer = (
        SparseConv2d(targets, columns, size, 1) if size else SparseLinear(targets, columns, True)
    )
    given = {
        "mask": mask,
        "weights": rng.standard_normal((int(mask.sum()), *layer.kernel)).astype(np.float32),
        "biases": rng.standard_normal(targets).astype(np.float32),
        "frozen": rng.random(targets) < 0.4,
        "working": rng.random(targets) < 0.5,
    }
    layer.lay_out(**given)
    return layer, given


@settings(max_examples=100, deadline=None)
@given(laid_out())
def test_what_goes_in_comes_out_whatever_the_order(case: tuple[SparseLayer, dict[str, Any]]) -> None:
    layer, given = case
    assert np.array_equal(layer.mask(), given["mask"])
    assert np.array_equal(layer.weights(), given["weights"])
    assert np.array_equal(layer.bias(), given["biases"])
    dense = np.zeros((*given["mask"].shape, *layer.kernel), dtype=np.float32)
    dense[given["mask"]] = given["weights"]
    assert np.array_equal(dense_weight(layer).detach().numpy(), dense)
    assert np.array_equal(dense_bias(layer).detach().numpy(), given["biases"])


@settings(max_examples=100, deadline=None)
@given(laid_out())
def test_rows_lie_frozen_working_idle_and_only_live_weights_are_stored(
    case: tuple[SparseLayer, dict[str, Any]],
) -> None:
    layer, given = case
    units = layer.units.numpy()
    frozen, working = given["frozen"], given["working"] & ~given["frozen"]
    parts = np.split(units, [layer.frozen_rows, layer.working_rows])
    for part, expected in zip(parts, (frozen, working, ~(frozen | working)), strict=True):
        assert part.tolist() == np.flatnonzero(expected).tolist()
    assert layer.store.shape == (int(given["mask"].sum()), *layer.kernel)
    assert layer.live == len(layer.store) == int(layer.starts[-1])
    assert layer.full == bool(given["mask"].all())
    for row, unit in enumerate(units):
        columns = layer.index[layer.starts[row] : layer.starts[row + 1]].numpy()
        assert columns.tolist() == np.flatnonzero(given["mask"][unit]).tolist()


@settings(max_examples=60, deadline=None)
@given(laid_out())
def test_parameters_are_the_unfrozen_tails_of_the_stores(case: tuple[SparseLayer, dict[str, Any]]) -> None:
    layer, given = case
    unfrozen = int(given["mask"][~given["frozen"]].sum())
    assert layer.values.shape[0] == unfrozen
    assert layer.biases.shape[0] == int((~given["frozen"]).sum())
    assert {id(p) for p in layer.parameters()} == {id(layer.values), id(layer.biases)}
    with torch.no_grad():
        layer.values += 1
        layer.biases += 1
    kept = given["frozen"]
    row_of = np.repeat(kept, given["mask"].sum(axis=1))
    assert np.array_equal(layer.weights()[row_of], given["weights"][row_of])
    assert np.array_equal(layer.bias()[kept], given["biases"][kept])
    assert np.array_equal(layer.weights()[~row_of], given["weights"][~row_of] + 1)
    assert np.array_equal(layer.bias()[~kept], given["biases"][~kept] + 1)


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_no_optimizer_holds_state_for_a_weight_that_is_not_live(kind: str) -> None:
    net = network(kind, 4, 0.3, engine="reference")
    optimizer = net.engine.optimizer(net, "adam", lr=0.1)
    assert isinstance(optimizer, torch.optim.Adam)
    x = torch.randn(5, *(FEATURES if kind == "mlp" else IMAGE))
    net(x).sum().backward()
    optimizer.step()
    held = sum(state["exp_avg"].numel() for state in optimizer.state.values())
    assert held == net.cost()["parameters"]["live"]
    assert held < 0.5 * net.cost()["parameters"]["dense"]
