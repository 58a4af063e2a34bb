"""`prove storage`: the store refuses, in every way that a disk and a database have, and what was answered is true."""
