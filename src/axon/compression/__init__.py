"""How an update is packed for its way to the orchestrator.

codecs      the vector as it is, or its change in half the bytes
"""

from axon.compression.codecs import CODECS, Half, Plain, codec

__all__ = ["CODECS", "Half", "Plain", "codec"]
