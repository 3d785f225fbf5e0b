"""How DAB and CSA keep a deadline on four Jetson Nanos (DAB thesis, Fig. 3.6 to 3.8).

A convolutional net, one pass, five cycles. Time is measured in runs that train nothing, since the
simulated world charges for training whatever comes of it; accuracy and loss are trained for.

The published deadlines are 105 to 150 s in all, and CSA took 172 s. How long CSA's share takes on
the Nano of the catalogue is another number, so the same deadlines are tried relative to that too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from axon.experiments.dab_deadline_claims import Found, Spot, claims_of
from axon.experiments.dab_deadline_runs import Bench, Timed, trained
from axon.experiments.result import Result, Row
from axon.experiments.runs import accelerated, line, part_of
from axon.experiments.settings import Settings, load_dataset
from axon.experiments.thesis import SUMMED_UP
from axon.report.figures import Figure, Panel, Point, Series
