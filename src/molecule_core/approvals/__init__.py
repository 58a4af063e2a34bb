"""What may be done once somebody has said yes?

Above: the edges, the views. Below: messages, org, store, wire, ground.
"""
