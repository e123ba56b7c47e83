"""A placeholder."""


def page(documents):
    """Nothing yet."""
    return ""
