"""Bundled invocables, and the data that declares them: ensembles, providers, profiles."""

import pathlib

DATA = pathlib.Path(__file__).parent.parent / "data"
