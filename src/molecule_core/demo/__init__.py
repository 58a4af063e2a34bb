"""The demo company: an org file and a scripted agent for each of its workspaces.

The agents are ordinary clients of the public API, each in its own process, and react only to messages. Called by cli;
calls client and common."""
