"""Addresses: what a host may be called, and text that is no address at all."""

from __future__ import annotations

import pytest

from axon.errors import ConfigurationError
from axon.rpc.address import Address, check_host


@pytest.mark.parametrize(
    "host",
    ["pi", "pi.local", "pi_2", "worker-3.example.org.", "10.0.0.7", "::1", "fe80::1%eth0", "müsli"],
)
def test_addresses_and_names_are_hosts(host: str) -> None:
    check_host(host)
    assert Address.parse(host).host == host


@pytest.mark.parametrize(
    "host", ["", "foo bar", "256.1.1.1", "1.2.3", "10", "::zz", "pi:8000", "pi/x", "pi\n", "a,b"]
)
def test_what_can_be_no_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match="is no host"):
        check_host(host)


@pytest.mark.parametrize("text", ["256.1.1.1:8000/x", "http://foo bar/x", "https://a,b"])
def test_an_address_needs_a_host_that_can_be(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no host"):
        Address.parse(text)


@pytest.mark.parametrize("text", ["[::1", "[::1/x", "::1]/x", "http://[pi]/x", "pi\u2100/x"])
def test_what_cannot_be_taken_apart_is_no_address(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no address: "):
        Address.parse(text)
