"""What a cycle costs a learner at the other end of a radio link.

U. Mohammad and S. Sorour, "Adaptive Task Allocation for Asynchronous Federated Mobile Edge
Learning", section II (Eq. 1-5): the rate of the link, the bits that cross it and the clock of the
learner make the three coefficients of its `EpochTime`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from axon.allocation.epochs import EpochTime
from axon.values import check_positive, check_whole

LIGHT_M_PER_S = 299_792_458.0


def watts(dbm: float) -> float:
    """Decibels over a milliwatt as watts."""
    return ratio(dbm) / 1000.0


def ratio(decibels: float) -> float:
    """Decibels as the ratio of two powers."""
    return math.pow(10.0, decibels / 10.0)


def gain_at(
    distance_m: float,
    *,
    carrier_hz: float = 2.4e9,
    breakpoint_m: float = 10.0,
    near_exponent: float = 2.0,
    far_exponent: float = 3.5,
) -> float:
    """The part of the power sent that arrives, indoors, at that distance.

    The path loss of IEEE 802.11's TGn channel models (V. Erceg et al., IEEE 802.11-03/940r4, 2004):
    free space up to a breakpoint, a steeper power of the distance from there on. The numbers are
    those of model D, a typical office. Its shadow fading is left out: the mean is what one plans
    with. The paper's own table of the channel is not in its text.
    """
    check_positive("distance_m", distance_m)
    check_positive("carrier_hz", carrier_hz)
    check_positive("breakpoint_m", breakpoint_m)
    check_positive("near_exponent", near_exponent)
    check_positive("far_exponent", far_exponent)
    at_one_metre = (LIGHT_M_PER_S / carrier_hz / (4.0 * math.pi)) ** 2
    near = math.pow(min(distance_m, breakpoint_m), -near_exponent)
    far = math.pow(max(distance_m / breakpoint_m, 1.0), -far_exponent)
    # Within a wavelength the law would give more power than was sent.
    return min(1.0, at_one_metre * near * far)


@dataclass(frozen=True, slots=True, kw_only=True)
class Radio:
    """A link's bandwidth, and the powers at its two ends.

    The paper divides by N₀ alone (Eq. 1) and calls it a power spectral density. Watts over watts
    per hertz would be no ratio, so N₀ is read as the density it is called, and the noise is what
    falls into the band: N₀ W. Bandwidth and power are those usual in this line of work (a channel
    of 5 MHz a node, 23 dBm), an assumption; the density is thermal noise at room temperature.
    """

    gain: float
    """h: the part of the power sent that arrives."""
    bandwidth_hz: float = 5e6
    """W."""
    power_w: float = watts(23.0)
    """P: what is sent."""
    noise_w_per_hz: float = watts(-174.0)
    """N₀."""

    def __post_init__(self) -> None:
        check_positive("gain", self.gain)
        check_positive("bandwidth_hz", self.bandwidth_hz)
        check_positive("power_w", self.power_w)
        check_positive("noise_w_per_hz", self.noise_w_per_hz)

    @property
    def bits_per_s(self) -> float:
        """What it can carry: W log₂(1 + P h / (N₀ W)), the denominator of Eq. 1 and 3."""
        signal_to_noise = self.power_w * self.gain / (self.noise_w_per_hz * self.bandwidth_hz)
        return self.bandwidth_hz * math.log1p(signal_to_noise) / math.log(2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningTask:
    """What is learned, in the bits that travel and the work of one sample in one epoch."""

    features: int
    """F: numbers in a sample."""
    bits_per_feature: int
    """P_d."""
    bits_per_parameter: int
    """P_m."""
    parameters: int
    """S_m: of the model, whatever the data."""
    parameters_per_sample: int = 0
    """S_d: by which the model grows with each sample, as that of a kernel method does."""
    flops_per_sample_epoch: float
    """C_m: clock cycles, at one operation each."""

    def __post_init__(self) -> None:
        check_whole("features", self.features, least=1)
        check_whole("bits_per_feature", self.bits_per_feature, least=1)
        check_whole("bits_per_parameter", self.bits_per_parameter, least=1)
        check_whole("parameters", self.parameters, least=0)
        check_whole("parameters_per_sample", self.parameters_per_sample, least=0)
        check_positive("flops_per_sample_epoch", self.flops_per_sample_epoch)


MNIST = LearningTask(
    features=784,
    bits_per_feature=8,
    bits_per_parameter=32,
    parameters=784 * 300 + 300 * 124 + 124 * 60 + 60 * 10,
    flops_per_sample_epoch=1_123_736.0,
)
"""The paper's task: a net of layers 784, 300, 124, 60 and 10, whose 8,974,080 bits are its weights
alone. A pixel travels as the byte it is stored in; the paper does not say."""

DESKTOP_HZ = 2.4e9
"""f of the half of the nodes that are desktops or laptops: usual in this line of work, an
assumption, as the paper gives no clocks."""

MICROCONTROLLER_HZ = 700e6
"""f of the other half, the likes of a Raspberry Pi: an assumption as well."""


def epoch_time(
    radio: Radio, task: LearningTask, clock_hz: float, *, distributed: bool = False
) -> EpochTime:
    """A learner's times, from its link and its clock (Eq. 4 and 5).

    Where the data set is distributed, each learner has its samples and only models travel.
    """
    check_positive("clock_hz", clock_hz)
    rate = radio.bits_per_s
    sample_bits = 0 if distributed else task.features * task.bits_per_feature
    growth_bits = task.bits_per_parameter * task.parameters_per_sample
    model_bits = task.bits_per_parameter * task.parameters
    return EpochTime(
        per_sample_epoch_s=task.flops_per_sample_epoch / clock_hz,  # C²
        per_sample_s=(sample_bits + 2 * growth_bits) / rate,  # C¹: the model goes there and back.
        fixed_s=2 * model_bits / rate,  # C⁰
    )
