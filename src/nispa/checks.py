"""The invariants of NISPA as functions that raise when one is broken (docs/fidelity.md)."""
