"""What a call reports while it runs, on its way to whoever follows it."""

from __future__ import annotations

from axon.errors import CannotTravel
from axon.rpc.messages import Pieces
from axon.rpc.replies import value_body
from axon.rpc.serving.execution import Form

PROGRESS_KEPT = 1000
"""Reports of one call waiting to be sent; beyond that the oldest go: the newest say most."""


def progress_body(value: object, form: Form) -> Pieces:
    """A report as its caller reads it."""
    try:
        return value_body(value, as_json=form.as_json, pickling=form.pickling)
    except CannotTravel as error:
        # Progress is told to people; one that cannot travel is no reason to lose the call.
        return value_body(f"progress that cannot travel: {error.message}", as_json=form.as_json)
