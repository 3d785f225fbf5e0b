"""The client's side: from a stub's attribute to a value.

Read `stubs`, `handles` (a call in one's hands), `caller` and `sender` (how it is made), `duplex`.
"""
