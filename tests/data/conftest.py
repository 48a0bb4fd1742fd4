import pytest


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """No test reads or writes the user's own data and cache."""
    monkeypatch.delenv("NISPA_DATA", raising=False)
    monkeypatch.setenv("NISPA_CACHE", str(tmp_path / "cache"))
