-- Full-text search by groups of three characters, which finds words and parts of
-- words in every language, those without spaces included. A message joins the
-- index when it is finished, so that saving a growing answer stays cheap.

CREATE VIRTUAL TABLE message_search USING fts5(content, content='message', content_rowid='id', tokenize='trigram remove_diacritics 1');
CREATE VIRTUAL TABLE chat_search USING fts5(title, content='chat', content_rowid='id', tokenize='trigram remove_diacritics 1');

INSERT INTO message_search(rowid, content) SELECT id, content FROM message WHERE status <> 'running';
INSERT INTO chat_search(rowid, title) SELECT id, title FROM chat;

CREATE TRIGGER message_insert AFTER INSERT ON message WHEN new.status <> 'running' BEGIN
	INSERT INTO message_search(rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER message_delete AFTER DELETE ON message WHEN old.status <> 'running' BEGIN
	INSERT INTO message_search(message_search, rowid, content) VALUES ('delete', old.id, old.content);
END;
CREATE TRIGGER message_unindex AFTER UPDATE OF content, status ON message
WHEN old.status <> 'running' AND (new.status = 'running' OR new.content <> old.content) BEGIN
	INSERT INTO message_search(message_search, rowid, content) VALUES ('delete', old.id, old.content);
END;
CREATE TRIGGER message_index AFTER UPDATE OF content, status ON message
WHEN new.status <> 'running' AND (old.status = 'running' OR new.content <> old.content) BEGIN
	INSERT INTO message_search(rowid, content) VALUES (new.id, new.content);
END;

CREATE TRIGGER chat_insert AFTER INSERT ON chat BEGIN
	INSERT INTO chat_search(rowid, title) VALUES (new.id, new.title);
END;
CREATE TRIGGER chat_delete AFTER DELETE ON chat BEGIN
	INSERT INTO chat_search(chat_search, rowid, title) VALUES ('delete', old.id, old.title);
END;
CREATE TRIGGER chat_update AFTER UPDATE OF title ON chat WHEN new.title <> old.title BEGIN
	INSERT INTO chat_search(chat_search, rowid, title) VALUES ('delete', old.id, old.title);
	INSERT INTO chat_search(rowid, title) VALUES (new.id, new.title);
END;
