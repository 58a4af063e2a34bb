"""Who gave whom which work? Above: the edges, the views. Below: messages, org, store, wire, ground."""
