"""Who is it? Persons, tokens, roles. Above: org and the edges. Below: store, wire, ground."""
