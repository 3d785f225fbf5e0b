"""The worker's side: what it exposes, who may ask, how calls run, how results come back.

Read `service` (what can be called), `dispatch` (the app), `execution` (running one call), `duplex`.
"""
