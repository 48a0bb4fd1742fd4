import shutil
from pathlib import Path

import pytest

from model.material import taught
from nispa.model import Model


@pytest.fixture(scope="session")
def two_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file with two tasks, made once; copy it before changing it."""
    path = tmp_path_factory.mktemp("model") / "two.nispa"
    taught(path)
    return path


@pytest.fixture
def model(two_tasks: Path, tmp_path: Path) -> Model:
    """A copy of its own."""
    path = tmp_path / "model.nispa"
    shutil.copy(two_tasks, path)
    return Model.open(path)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NISPA_CACHE", str(tmp_path / "cache"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests' tasks are small, and learning says so."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*was judged by"))
            item.add_marker(pytest.mark.filterwarnings("ignore:.*accuracy_loss is"))
            item.add_marker(pytest.mark.filterwarnings("ignore:.*no better than guessing"))
