"""Models on the Hugging Face hub, through huggingface_hub's mixin: save_pretrained, from_pretrained, push.

The repository holds the model file itself (it is a safetensors file), a config.json to read, and a card.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nispa import __version__, atomic
from nispa.errors import NispaError

if TYPE_CHECKING:
    from nispa.model.model import Model

FILE = "model.safetensors"


def mixin() -> Any:
    """The class with `from_pretrained`, `save_pretrained`, `push_to_hub`; made late, for it is an extra."""
    try:
        from huggingface_hub import ModelHubMixin, hf_hub_download
    except ImportError:
        raise NispaError("the hub needs huggingface_hub; pip install 'nispa[export]'") from None
    from nispa.model.model import Model

    class OnHub(ModelHubMixin, library_name="nispa", tags=["nispa", "continual-learning", "sparse"]):
        """A model file with the hub's three verbs."""

        def __init__(self, model: Model) -> None:
            self.model = model

        def _save_pretrained(self, save_directory: Path) -> None:
            save(self.model, save_directory)

        @classmethod
        def _from_pretrained(cls, *, model_id: str, **options: Any) -> OnHub:
            folder = Path(model_id)
            if folder.is_dir():
                return cls(Model.open(folder / FILE))
            known = ("revision", "cache_dir", "force_download", "token", "local_files_only")
            chosen = {name: options[name] for name in known if name in options}
            return cls(Model.open(hf_hub_download(model_id, FILE, **chosen)))

    return OnHub


def save(model: Model, folder: Path) -> None:
    """The files of a repository."""
    folder = atomic.make_folder(folder)
    about = {key: value for key, value in model.inspect().items() if key not in ("path", "engine")}
    atomic.write(folder / FILE, model.path.read_bytes())
    atomic.write(folder / "config.json", json.dumps({"nispa": __version__, **about}, indent=1))
    atomic.write(folder / "README.md", card(model))


def card(model: Model) -> str:
    """The repository's front page."""
    shape = "x".join(map(str, model.inputs.shape))
    lines = [
        "---",
        "library_name: nispa",
        "tags: [nispa, continual-learning, sparse]",
        "---",
        f"# A NISPA model for {model.inputs.kind} {shape}",
        "",
        "It learned these tasks one after the other, in one sparse network, and forgot nothing:",
        "",
        "| task | classes | accuracy on validation samples, when learned |",
        "| --- | --- | --- |",
    ]
    for task in model.tasks:
        cells = (task.name, ", ".join(task.classes), f"{task.accuracy:.1%} of {task.validation}")
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    lines += [
        "",
        "```python",
        "import nispa",
        'model = nispa.Model.from_pretrained("USER/NAME")   # or a folder',
        'print(model.predict("picture.png"))',
        'model.copy_to("mine.nispa").learn("photos/new-task")',
        "```",
        "",
    ]
    return "\n".join(lines)
