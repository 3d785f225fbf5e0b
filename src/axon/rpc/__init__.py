"""How devices talk: calls over HTTP or memory. Knows nothing of learning.

messages            the narrow waist between transports and everything above
address paths       where things are
wire replies frames how values, outcomes and streams become bytes
http memory link    the two transports, and what a link does to them
security            keys, signatures, certificates
executors serving   the worker's side
calling             the client's side
discovery           finding workers
"""
