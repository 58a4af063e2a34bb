"""Mistakes that those who use the other nouns of a server must see, and mistakes of the agent's own process."""

from proofs.crew.filers import MISSING
from proofs.crew.shown import AFTER, NEVER, TWICE
from proofs.harness.controls import Control

OF_MEMORY = (
    Control(
        name="the version that a writer names is not looked at",
        file="memory/writer.py",
        line="rules.check_version(Entry(*found[0]).version if found else NO_VERSION, if_match_version)",
        by="pass",
        breaks="written over unseen",
    ),
    Control(
        name="the last version is not kept",
        file="memory/writer.py",
        line='("save_key_version", {**own, "last": version}),',
        by="",
        breaks="one version, two values",
    ),
    Control(
        name="what was written down before is not recognised",
        file="memory/writer.py",
        line="org_id, hashed = self._org.living(workspace_id).org_id, rules.hash_of(clean)",
        by="org_id, hashed = self._org.living(workspace_id).org_id, self._ids.new()",
        breaks="memories doubled",
    ),
)
OF_FILES = (
    Control(
        name="a file is known before it is on the disk",
        file="messages/filing.py",
        line="await each.incoming.keep()",
        by="asyncio.get_running_loop().call_later(0.1, lambda each=each: asyncio.ensure_future(each.incoming.keep()))",
        breaks=MISSING,
    ),
)
OF_APPROVALS = (
    Control(
        name="the key of a request is not looked at",
        file="edges/approvals.py",
        line="key=checked_key(call, self._limits),",
        by="key=None,",
        breaks="approvals doubled",
    ),
    Control(
        name="a decision is made on how it stood when its caller came",
        file="approvals/writer.py",
        line="known = yield from row_of(row.org_id, row.id)",
        by="yield from (); known = row",
        breaks="used twice",
    ),
    Control(
        name="an approval that was used can be used",
        file="approvals/writer.py",
        line="if found is Usable.USED:",
        by="if False:",
        breaks="used twice",
    ),
    Control(
        name="an approval that nobody decides stays open",
        file="approvals/writer.py",
        line="elif now >= row.expires_at:",
        by="elif False:",
        breaks="approvals open for ever",
    ),
    Control(
        name="who asked is not told what was decided",
        file="approvals/steps.py",
        line="if told and requester is not None and by.id != requester.id:",
        by="if False:",
        breaks="decisions not exactly one letter",
    ),
)
OF_THREADS = (
    Control(
        name="what was said under a key is not recognised",
        file="threads/writer.py",
        line='turn = self._acts.turn(change, row.thread_id, texts, trigger="user", author=by, key=key)',
        by='turn = self._acts.turn(change, row.thread_id, texts, trigger="user", author=by)',
        breaks="said and not there once",
    ),
    Control(
        name="what a caller calls its thread is not kept",
        file="threads/writer.py",
        line='change.write("keep_thread_key", {"workspace_id": workspace_id, "key": key, "thread_id": thread_id})',
        by="pass",
        breaks="threads doubled",
    ),
    Control(
        name="a letter that was read is read again",
        file="threads/turning.py",
        line='change.stamp(mail, "delivered", turn_id)',
        by="pass",
        breaks="letters between threads not read once",
    ),
    Control(
        name="the key of an engine's lines is not kept",
        file="threads/turning.py",
        line='key = None if said.key is None else f"append:{said.key}"',
        by="key = None",
        breaks="lines of engines not there once",
    ),
    Control(
        name="base instructions lose their end",
        file="threads/steps.py",
        line='"text": base.text,',
        by='"text": base.text[:-1],',
        breaks="base instructions other than given",
    ),
)
OF_AGENTS = (
    Control(
        name="what an agent has handled is not kept in its file",
        file="agent/cursors.py",
        line='lines += [f"handled {attempt} {id_}" for id_, attempt in remembered.handled.items() if _is_id(id_)]',
        by="pass",
        breaks=AFTER,
    ),
    Control(
        name="an agent's inbox takes a repeat for news",
        file="agent/inbox.py",
        line="known.message = replace(known.message, attempt=message.attempt)",
        by="known.message, known.push_at = replace(known.message, attempt=message.attempt), self._ring() or 0.0",
        breaks=TWICE,
    ),
    Control(
        name="what a dead process held counts as handled",
        file="agent/membership.py",
        line="await self._release(self._acks.left_over({id_ for _, id_ in self._keys()}))",
        by="for each in self._acks.left_over({id_ for _, id_ in self._keys()}).items(): "
        "await acknowledge(self.api(), self.id, *each)",
        breaks=NEVER,
    ),
)
