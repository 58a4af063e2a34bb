"""The ground: ids, clock, errors, settings, logs. Above: everything. Below: only the standard library and msgspec."""
