"""Exports a stored run for MLflow, Weights & Biases or TensorBoard: python -m dpbench.export mlflow RUN.json DIR"""
