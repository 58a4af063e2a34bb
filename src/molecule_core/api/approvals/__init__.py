"""REST routes of approvals, and the gate that requires them."""
