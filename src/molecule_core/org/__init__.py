"""Who sits where? Organisations, workspaces, tree, liveness. Above: messages and the edges. Below: access, store."""
