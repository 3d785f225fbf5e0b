"""A fleet on one machine: virtual time, throttles, link shaping, faults.

`virtual` is the clock of the simulated world: an hour of schedules runs in the time its code takes.
"""
