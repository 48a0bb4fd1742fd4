"""Tests run on one thread unless they say otherwise: small networks gain nothing from more."""

import torch

torch.set_num_threads(1)
