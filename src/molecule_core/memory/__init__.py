"""What agents wish to remember: memories that are searched, values under keys. Above: the edges. Below: org, store."""
