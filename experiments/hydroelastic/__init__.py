"""Experiments of pressure field contact."""
