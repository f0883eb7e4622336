"""Origins: the kinds of place that invokers come from, one module or package each."""
