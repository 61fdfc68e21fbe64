"""Stands in for NumPy on a machine that has none."""
raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
