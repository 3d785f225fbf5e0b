"""Published results, measured again: one small module for each, run by `axon reproduce NAME`.

result      claims, rows and a figure: what an experiment comes to
settings    what every experiment can be told
registry    the experiments by name
parallel    work spread over the cores of this machine
placements  the learners of the asynchronous experiments, placed at random
sb_timing   benchmarks and whole runs of the same devices, timed
page        several results as one page of HTML

An experiment is a module with `run(settings) -> Result`. A claim that does not hold is a result,
not an error; it says why.
"""
