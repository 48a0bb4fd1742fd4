"""Tests run on one thread unless they say otherwise: small networks gain nothing from more. What they draw
from torch without a seed does not depend on which tests ran before."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _the_same_draws() -> None:
    torch.manual_seed(0)
