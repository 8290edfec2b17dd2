"""The commands of `concord`, one module each: parse, call, print."""
