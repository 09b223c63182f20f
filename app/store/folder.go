package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// Folder is a named group of chats.
type Folder struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	Position int    `json:"position"` // position in the list of folders
}

// SaveFolder stores a new folder at the end if ID is 0. Otherwise it renames
// and moves an existing folder.
func (s *Store) SaveFolder(ctx context.Context, f Folder) (Folder, error) {
	if f.Name = cleanTitle(f.Name); f.Name == "" {
		return f, s.fault("save folder", fmt.Errorf("%w: a folder needs a name", ErrInput))
	}
	err := s.write(ctx, "save folder", func(tx *sql.Tx) error {
		if f.ID != 0 {
			return oneRow(tx.ExecContext(ctx, "UPDATE folder SET name = ?, position = ? WHERE id = ?", f.Name, f.Position, f.ID))
		}
		if err := tx.QueryRowContext(ctx, "SELECT ifnull(max(position), 0) + 1 FROM folder").Scan(&f.Position); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, "INSERT INTO folder(name, position) VALUES (?, ?)", f.Name, f.Position)
		if err != nil {
			return err
		}
		f.ID, err = result.LastInsertId()
		return err
	})
	return f, err
}

// Folders returns the folders in order.
func (s *Store) Folders(ctx context.Context) ([]Folder, error) {
	folders := []Folder{}
	err := s.each(ctx, "SELECT id, name, position FROM folder ORDER BY position, id", nil, func(r row) error {
		var f Folder
		err := r.Scan(&f.ID, &f.Name, &f.Position)
		folders = append(folders, f)
		return err
	})
	return folders, s.fault("list folders", err)
}

// DeleteFolder deletes a folder. Its chats are kept without a folder.
func (s *Store) DeleteFolder(ctx context.Context, id int64) error {
	return s.write(ctx, fmt.Sprintf("delete folder %d", id), func(tx *sql.Tx) error {
		return oneRow(tx.ExecContext(ctx, "DELETE FROM folder WHERE id = ?", id))
	})
}

// folderExists returns an error if no folder has the id. 0 is always accepted.
func folderExists(ctx context.Context, tx *sql.Tx, id int64) error {
	if id == 0 {
		return nil
	}
	var one int
	if err := tx.QueryRowContext(ctx, "SELECT 1 FROM folder WHERE id = ?", id).Scan(&one); errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: folder %d", ErrNotFound, id)
	} else if err != nil {
		return err
	}
	return nil
}

// Preset is a named system prompt with settings and a model.
type Preset struct {
	ID       int64           `json:"id"`
	Name     string          `json:"name"`
	System   string          `json:"system"`
	Model    string          `json:"model"` // empty to keep the chat's model
	Settings json.RawMessage `json:"settings" ts:"ChatSettings"`
}

// maxPresets is the maximum number of presets.
const maxPresets = 1000

// SavePreset stores a new preset if ID is 0. Otherwise it changes a preset.
// Names must be unique.
func (s *Store) SavePreset(ctx context.Context, p Preset) (Preset, error) {
	err := s.write(ctx, "save preset", func(tx *sql.Tx) (err error) {
		p, err = savePreset(ctx, tx, p)
		return err
	})
	return p, err
}

func savePreset(ctx context.Context, tx *sql.Tx, p Preset) (Preset, error) {
	var err error
	if p.Name = cleanTitle(p.Name); p.Name == "" {
		return p, fmt.Errorf("%w: a preset needs a name", ErrInput)
	}
	if p.System, err = cleanText(p.System); err != nil {
		return p, err
	}
	p.Model = cleanTitle(p.Model)
	if p.Settings, err = cleanObject(p.Settings); err != nil {
		return p, err
	}
	var taken int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM preset WHERE name = ? AND id <> ?", p.Name, p.ID).Scan(&taken); err != nil {
		return p, err
	}
	if taken > 0 {
		return p, fmt.Errorf("%w: a preset %q already exists", ErrInput, p.Name)
	}
	if p.ID != 0 {
		return p, oneRow(tx.ExecContext(ctx, "UPDATE preset SET name = ?, system = ?, model = ?, settings = ? WHERE id = ?", p.Name, p.System, p.Model, string(p.Settings), p.ID))
	}
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM preset").Scan(&taken); err != nil {
		return p, err
	}
	if taken >= maxPresets {
		return p, fmt.Errorf("%w: at most %d presets can be stored", ErrInput, maxPresets)
	}
	result, err := tx.ExecContext(ctx, "INSERT INTO preset(name, system, model, settings) VALUES (?, ?, ?, ?)", p.Name, p.System, p.Model, string(p.Settings))
	if err != nil {
		return p, err
	}
	p.ID, err = result.LastInsertId()
	return p, err
}

// PutPresets stores all of the presets, or none. Each one replaces the preset
// with the same name.
func (s *Store) PutPresets(ctx context.Context, list []Preset) error {
	return s.write(ctx, "put presets", func(tx *sql.Tx) error {
		for _, p := range list {
			err := tx.QueryRowContext(ctx, "SELECT id FROM preset WHERE name = ?", cleanTitle(p.Name)).Scan(&p.ID)
			if errors.Is(err, sql.ErrNoRows) {
				p.ID, err = 0, nil
			}
			if err != nil {
				return err
			}
			if _, err := savePreset(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// Presets lists the presets by name.
func (s *Store) Presets(ctx context.Context) ([]Preset, error) {
	presets := []Preset{}
	err := s.each(ctx, "SELECT id, name, system, model, settings FROM preset ORDER BY name COLLATE NOCASE, id", nil, func(r row) error {
		var p Preset
		var settings string
		err := r.Scan(&p.ID, &p.Name, &p.System, &p.Model, &settings)
		p.Settings = json.RawMessage(settings)
		presets = append(presets, p)
		return err
	})
	return presets, s.fault("list presets", err)
}

// DeletePreset deletes a preset.
func (s *Store) DeletePreset(ctx context.Context, id int64) error {
	return s.write(ctx, fmt.Sprintf("delete preset %d", id), func(tx *sql.Tx) error {
		return oneRow(tx.ExecContext(ctx, "DELETE FROM preset WHERE id = ?", id))
	})
}
