"""A plant fitted from a recording."""
