"""The frameworks the RPC benchmark compares, one small module each, and what drives them.

Read in this order: `measures` (what is timed, the same code for every framework), `driver` (a
peer's process), `raw` and the other peers, `roster` (who takes part in which question), `processes`
(how the benchmark starts and asks them), `startup`, `bars` and `tables`.
"""
