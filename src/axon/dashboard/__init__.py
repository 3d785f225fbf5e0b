"""Runs as a page: live while they go on, afterwards from their records, several side by side.

texts       what others wrote, made fit to be shown
facts       a cycle in numbers: the cells of one array, a device each
curves      what is kept of every cycle
members     what is known of each device
course      one run: its curves, its devices, its latest cycles in detail
feed        all runs that are shown, and what has changed since when
sources     record files that are followed; stores, the runs in one
board       the tasks of an orchestrator
views       what the page is told, as JSON
web         the page and its data over HTTP, with who may ask for them
serving     the server on a thread of its own
comparison  groups of runs with 95 % intervals
page        all of it in one file
sheets      the same as CSV and as pictures
"""
