"""The extension codes of the head: what each tagged value is called on the wire, and its payload.

None, bool, 64-bit int, float, str, bytes, list and dict with simple keys are plain msgpack. All
else is a msgpack extension; unless the table says `raw`, its payload is msgpack again and may hold
tagged values itself. `buffer` is an index into the buffers that follow the head; each buffer is
named exactly once.

    code  value         payload
       1  tuple         [item, ...]
       2  set           [item, ...]
       3  frozenset     [item, ...]
       4  big int       raw: two's complement, little endian, at most 1 MiB
       5  complex       raw: real and imaginary part as little-endian float64
       6  datetime      [year, month, day, hour, minute, second, microsecond, fold, offset, zone]
       7  date          [year, month, day]
       8  time          [hour, minute, second, microsecond, fold, offset, zone]
       9  timedelta     [days, seconds, microseconds]
      10  Decimal       str
      11  UUID          raw: its 16 bytes
      12  map           [[key, ...], [value, ...]], where keys are not plain scalars
      13  slice         [start, stop, step]
      14  range         [start, stop, step]
      15  constant      "Ellipsis", "NotImplemented" or "UNSET" (that of msgspec)
      16  record        [module, qualified name, {field: value}]; data class, Struct or NamedTuple
      17  enum member   [module, qualified name, member's name, or the number of an unnamed Flag]
      18  bytearray     raw: its bytes, up to 4 KiB
      19  buffer        ["bytes" | "bytearray" | "memoryview" | "str", buffer]; those over 4 KiB,
                        and every memoryview
      20  array         [dtype, shape, "C" | "F", buffer]
      21  array scalar  [dtype, its bytes]; for dtype S the bytes and for U the str itself
      22  array dtype   dtype
      23  tensor        [dtype's name, shape, buffer], elements in C order, little endian
      24  tensor dtype  dtype's name, as in "bfloat16"
      25  pickled       buffer; read only where both sides opted in

`offset` is the distance from UTC in microseconds, nil for a naive value; `zone` is an IANA name or
nil. An array's `dtype` is numpy's own string ("<f4", "<M8[ns]", "|S5"), for long doubles followed
by ":" and the bits of their mantissa; for a structure a map of names, formats, offsets, titles,
itemsize and aligned; for a sub-array [dtype, shape].
"""

from __future__ import annotations

TUPLE = 1
SET = 2
FROZENSET = 3
BIG_INT = 4
COMPLEX = 5
DATETIME = 6
DATE = 7
TIME = 8
TIMEDELTA = 9
DECIMAL = 10
UUID = 11
MAP = 12
SLICE = 13
RANGE = 14
CONSTANT = 15
RECORD = 16
ENUM = 17
BYTEARRAY = 18
BUFFER = 19
ARRAY = 20
ARRAY_SCALAR = 21
ARRAY_DTYPE = 22
TENSOR = 23
TENSOR_DTYPE = 24
PICKLED = 25

INLINE_BYTES = 4096
"""Longer bytes, bytearrays and strs leave the head for a buffer of their own."""
BIG_INT_BYTES = 1 << 20
"""The longest int taken, at both ends: long enough for any key, too short to be an attack."""
MAX_DEPTH = 64
"""How deep values may sit inside one another when sent; the same number of tagged ones arrive."""
