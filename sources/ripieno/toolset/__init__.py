"""Bundled invocables, and the folder of the bundled data: ensembles, providers, profiles."""

import pathlib

DATA = pathlib.Path(__file__).parent.parent / "data"
