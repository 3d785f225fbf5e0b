"""What robust rules must bear: what a lying node sends instead of its honest vector.

seam        the scene an attacker acts in, and what an attack is
blind       attacks that know nothing but their own vector
omniscient  attacks that know what the honest nodes send
labels      wrong labels to train on
names       names to attacks
"""

from axon.attacks.blind import Drop, Random, Reversed, SignFlip, Stale
from axon.attacks.labels import LabelFlip
from axon.attacks.names import ATTACKS, attack_of
from axon.attacks.omniscient import InnerProduct, LittleIsEnough, Mimic
from axon.attacks.seam import Attack, Poisonous, Scene

__all__ = [
    "ATTACKS",
    "Attack",
    "Drop",
    "InnerProduct",
    "LabelFlip",
    "LittleIsEnough",
    "Mimic",
    "Poisonous",
    "Random",
    "Reversed",
    "Scene",
    "SignFlip",
    "Stale",
    "attack_of",
]
