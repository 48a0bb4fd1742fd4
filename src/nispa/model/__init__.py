"""A model on disk that keeps learning: one file, own data, nothing forgotten (docs/model-file.md)."""

from nispa.model.model import Answer, Evaluation, Model, Prediction, TaskInfo

__all__ = ["Answer", "Evaluation", "Model", "Prediction", "TaskInfo", "new", "open"]

open = Model.open
new = Model.new
