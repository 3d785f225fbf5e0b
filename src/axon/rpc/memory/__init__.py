"""The transport without sockets: named hosts in one process, shaped links, faults to order."""
