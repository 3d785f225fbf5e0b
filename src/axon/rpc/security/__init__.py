"""Who may call: keys and what they allow, signatures on every request, certificates."""
