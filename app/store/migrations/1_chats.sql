-- Times are milliseconds since 1970. Ids are never used twice, since files beside
-- the database carry them.

CREATE TABLE folder (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	name     TEXT    NOT NULL,
	position INTEGER NOT NULL
);

CREATE TABLE preset (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	name     TEXT    NOT NULL UNIQUE,
	system   TEXT    NOT NULL,
	settings TEXT    NOT NULL -- JSON object
);

CREATE TABLE chat (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	title    TEXT    NOT NULL,
	auto     INTEGER NOT NULL, -- the title was made from the first message
	folder   INTEGER REFERENCES folder(id) ON DELETE SET NULL,
	pinned   INTEGER NOT NULL,
	model    TEXT    NOT NULL,
	system   TEXT    NOT NULL,
	settings TEXT    NOT NULL, -- JSON object
	chosen   INTEGER,          -- first message of the branch that is shown
	created  INTEGER NOT NULL,
	updated  INTEGER NOT NULL
);
CREATE INDEX chat_folder  ON chat(folder);
CREATE INDEX chat_updated ON chat(pinned DESC, updated DESC, id DESC);

-- A message without a parent is a first one. The parent is not a foreign key: to
-- delete a long chat would recurse once a message.
CREATE TABLE message (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	chat        INTEGER NOT NULL REFERENCES chat(id) ON DELETE CASCADE,
	parent      INTEGER,
	chosen      INTEGER,        -- the answer that is shown
	role        TEXT    NOT NULL,
	content     TEXT    NOT NULL,
	reasoning   TEXT    NOT NULL,
	tool_calls  TEXT    NOT NULL, -- JSON list, or empty
	tool_call   TEXT    NOT NULL, -- id of the call that this is the result of
	attachments TEXT    NOT NULL, -- JSON list, or empty
	status      TEXT    NOT NULL,
	error       TEXT    NOT NULL,
	model       TEXT    NOT NULL,
	stats       TEXT    NOT NULL, -- JSON object
	created     INTEGER NOT NULL,
	updated     INTEGER NOT NULL
);
CREATE INDEX message_chat ON message(chat, id);

-- The packed KV state of a chat, in a file of its own.
CREATE TABLE state (
	chat    INTEGER PRIMARY KEY REFERENCES chat(id) ON DELETE CASCADE,
	file    TEXT    NOT NULL, -- name in the folder of states
	message INTEGER NOT NULL, -- last message that it covers
	tokens  INTEGER NOT NULL,
	bytes   INTEGER NOT NULL,
	key     TEXT    NOT NULL, -- model and cache types that it was made with
	used    INTEGER NOT NULL
);
