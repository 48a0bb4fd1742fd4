"""A model file behind HTTP: `nispa serve`. Needs the extra ``serve``."""
