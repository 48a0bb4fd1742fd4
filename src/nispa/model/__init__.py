"""A model on disk that keeps learning: one file, own data, nothing forgotten (docs/model-file.md)."""

from nispa.model.ask import Answer, Evaluation, Prediction, TaskInfo
from nispa.model.model import Model

__all__ = ["Answer", "Evaluation", "Model", "Prediction", "TaskInfo", "new", "open"]

open = Model.open
new = Model.new
