"""A model, or one of its tasks, as ONNX: scaling and softmax inside, class names beside.

Built node by node, so that nothing but the onnx package is needed. Weights are dense there, for that is
what runtimes compute; how many of them are live is noted in the file (``nispa.live_weights`` of
``nispa.weights``). A task's graph holds the units that it uses only, so it is small all the same.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nispa import __version__, atomic
from nispa.engine.reference import dense_bias, dense_weight
from nispa.errors import NispaError
from nispa.layers import SparseConv2d
from nispa.model.content import Known
from nispa.network import Network

if TYPE_CHECKING:
    from nispa.model.model import Model

OPSET, IR = 17, 8


def export_onnx(model: Model, path: str | Path, task: str | None = None) -> dict[str, Any]:
    """Write a graph: input ``pixels`` [N, C, H, W] of 0 to 255 (or ``features`` [N, F]); per task, outputs
    ``TASK.logits`` and ``TASK.probabilities``. Returns what is noted in the file."""
    try:
        import onnx
    except ImportError:
        raise NispaError("exporting needs onnx; pip install 'nispa[export]'") from None
    inside = model._some()
    numbers = inside.alive() if task is None else [inside.number(task)]
    graph = _Graph(inside, onnx)
    for number in numbers:
        graph.add(number)
    notes = graph.notes(numbers)
    made = onnx.helper.make_model(
        graph.graph(Path(path).stem),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="nispa",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(made, {f"nispa.{key}": json.dumps(value) for key, value in notes.items()})
    onnx.checker.check_model(made, full_check=True)
    atomic.write(Path(path), made.SerializeToString())
    return notes


class _Graph:
    """Nodes, constants and outputs, as they come together."""

    def __init__(self, inside: Known, onnx: Any) -> None:
        self.inside, self.onnx = inside, onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []
        self.live = self.all = 0
        self.name = "pixels" if inside.inputs.kind == "pictures" else "features"
        shape = (1, -1, 1, 1) if inside.inputs.kind == "pictures" else (1, -1)
        scale, shift = (
            np.array(v, np.float32).reshape(shape) for v in (inside.inputs.scale, inside.inputs.shift)
        )
        scaled = self.node("Mul", [self.name, self.constant("nispa/scale", scale)], "nispa/multiplied")
        self.start = self.node("Add", [scaled, self.constant("nispa/shift", shift)], "nispa/scaled")

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def add(self, number: int) -> None:
        """One task's layers."""
        name, part = self.inside.learner.tasks[number].name, self.inside.part(number)
        x, spread = self.start, False
        for i, layer in enumerate(part.sparse_layers):
            at = f"{name}/layer{i + 1}"
            weight = self.constant(f"{at}/weight", dense_weight(layer).detach().cpu().numpy())
            bias = self.constant(f"{at}/bias", dense_bias(layer).detach().cpu().numpy())
            if isinstance(layer, SparseConv2d):
                pads = [layer.size // 2] * 4
                x = self.node("Conv", [x, weight, bias], f"{at}/conv", pads=pads)
                x = self.node("Relu", [x], f"{at}/relu")
                if layer.pool == 2:
                    x = self.node("MaxPool", [x], f"{at}/pool", kernel_shape=[2, 2], strides=[2, 2])
                continue
            if not spread:
                x, spread = self.node("Flatten", [x], f"{at}/flat", axis=1), True
            last = i == len(part.sparse_layers) - 1
            x = self.node("Gemm", [x, weight, bias], f"{name}.logits" if last else f"{at}/linear", transB=1)
            if layer.relu:
                x = self.node("Relu", [x], f"{at}/relu")
        self.node("Softmax", [x], f"{name}.probabilities", axis=1)
        float32 = self.onnx.TensorProto.FLOAT
        for output in (f"{name}.logits", f"{name}.probabilities"):
            value = self.onnx.helper.make_tensor_value_info(output, float32, ["N", part.classes])
            self.outputs.append(value)
        self._count(part)

    def _count(self, part: Network) -> None:
        for layer in part.sparse_layers:
            area = math.prod(layer.kernel)
            self.live += layer.live * area
            self.all += layer.targets * layer.columns * area

    def graph(self, name: str) -> Any:
        shape = ["N", *self.inside.inputs.shape]
        given = self.onnx.helper.make_tensor_value_info(self.name, self.onnx.TensorProto.FLOAT, shape)
        return self.onnx.helper.make_graph(self.nodes, name, [given], self.outputs, self.constants)

    def notes(self, numbers: list[int]) -> dict[str, Any]:
        tasks = {self.inside.learner.tasks[n].name: self.inside.learner.tasks[n].class_names for n in numbers}
        return {
            "tasks": tasks,
            "input": self.inside.inputs.kind,
            "resize": "bilinear, stretched" if self.inside.inputs.kind == "pictures" else "none",
            "live_weights": self.live,
            "weights": self.all,
            "sparsity": round(1 - self.live / max(self.all, 1), 4),
        }
