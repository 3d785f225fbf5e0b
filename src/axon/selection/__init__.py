"""Who takes part in a cycle.

random      everyone, or some of them by lot
"""

from axon.selection.random import Everyone, Some

__all__ = ["Everyone", "Some"]
