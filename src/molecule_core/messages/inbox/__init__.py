"""Claims and acks of inbox messages: leases, the ack floor, readers by cursor."""
