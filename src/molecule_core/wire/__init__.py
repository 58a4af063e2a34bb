"""Shapes that the server and the agent's side both speak. Above: edges, client, agent. Below: the ground."""
