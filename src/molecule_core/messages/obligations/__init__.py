"""Which messages need a reply, until when, and the instructions and handles for answering them."""
