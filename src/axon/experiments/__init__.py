"""Published results, measured again: one small module for each, run by `axon reproduce NAME`.

result      claims, rows and a figure: what an experiment comes to, and when a claim holds
paired      what two things differ by that were measured in the same repeats
settings    what every experiment can be told
registry    the experiments by name
runs        runs in the simulated world, once or many times
thesis      the two schemes of the DAB thesis, and its nets as it trained them
mnist       MNIST as the DAB thesis cuts it
parallel    work spread over the cores of this machine
placements  the learners of the asynchronous experiments, placed at random
byzantine_world  servers, workers and peers of which some lie
byz_cost_world  the same with nobody lying, for the time of their steps
sb_timing   benchmarks and whole runs of the same devices, timed
page        several results as one page of HTML

An experiment is a module with `run(settings) -> Result`. A claim that does not hold is a result,
not an error; it says why.
"""
