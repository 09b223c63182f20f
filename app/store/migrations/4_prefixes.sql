-- The text of each answer in the store of prefixes, to delete it with its message.
CREATE TABLE prefix (
	message INTEGER PRIMARY KEY REFERENCES message(id) ON DELETE CASCADE,
	key     BLOB NOT NULL -- of the text's last whole page
);

-- Chats had files of their own once. Their texts are in the store of prefixes now.
DROP TABLE state;
