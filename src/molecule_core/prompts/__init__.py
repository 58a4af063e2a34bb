"""What agents' system prompts are made of and have become: files shared with children, builds told. Above: the edges.
Below: org, store."""
