"""HTTP/1.1 done for speed: small `asyncio` protocols on httptools, client and server.

Read `connection` (what both ends share); `server`, with its `answers` and its `patience`, and
`listener`; `client` and `transport`.
"""
