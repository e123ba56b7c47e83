"""The one exception a user of dexstack has to know."""


class ConfigError(ValueError):
    """What the user brought (file, parameter, model) cannot be used.

    The message is one sentence that names what is wrong and where; commands print it without a traceback and exit with code 2.
    """
