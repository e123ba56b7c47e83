"""Figures of the papers on pressure field contact, and comparisons with Drake."""
