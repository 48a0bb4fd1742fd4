"""Experiments: recipes, runs, results."""
