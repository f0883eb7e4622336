"""Python functions as tools: description and argument schema from docstring and annotations."""

from ripieno.signatures.functions import Signature, define_function, function_schema

__all__ = ["Signature", "define_function", "function_schema"]
