"""Where every random number comes from.

Each draw has an address (seed, purpose, task, phase, epoch) and a generator of its own. So nothing
random has to be stored in a checkpoint, and a run that is killed and resumed draws the same numbers.
docs/algorithm.md lists the order of the draws at each address.
"""

import numpy as np

from nispa.errors import NispaError

INIT, BATCHES, REWIRE, REINIT, SPLIT, OUTPUTS, MEMORY, AUGMENT, IMPORTANCE, ROOM = range(10)


def generator(seed: int, purpose: int, task: int = 0, phase: int = 0, epoch: int = 0) -> np.random.Generator:
    """The generator at one address (task and epoch count from 0, phase from 1)."""
    if seed < 0:
        raise NispaError(f"seed is {seed}; want a whole number, 0 or more")
    return np.random.default_rng([seed, purpose, task, phase, epoch])
