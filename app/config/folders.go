package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Folders holds the paths of a user's folders.
type Folders struct {
	Config string // config.toml
	Data   string // models, chats, saved conversation states
	Cache  string // files that can be recreated
	Log    string // the log file godwit.log
}

// UserFolders returns the system's usual folders, or folders below $GODWIT_HOME
// if that is set. It does not create any folder.
func UserFolders(env Env) (Folders, error) {
	if home, ok := env("GODWIT_HOME"); ok && home != "" {
		home, err := filepath.Abs(home)
		if err != nil {
			return Folders{}, fmt.Errorf("$GODWIT_HOME: %w", err)
		}
		return Folders{home, filepath.Join(home, "data"), filepath.Join(home, "cache"), filepath.Join(home, "log")}, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Folders{}, fmt.Errorf("there is no folder for files; set GODWIT_HOME: %w", err)
	}
	conf, err := os.UserConfigDir()
	if err != nil {
		return Folders{}, fmt.Errorf("there is no folder for files; set GODWIT_HOME: %w", err)
	}
	switch runtime.GOOS {
	case "windows": // the local folder on Windows, which does not roam between machines
		local := filepath.Join(cache, "Godwit")
		return Folders{filepath.Join(conf, "Godwit"), local, filepath.Join(local, "cache"), filepath.Join(local, "log")}, nil
	case "darwin":
		home, err := os.UserHomeDir()
		if err != nil {
			return Folders{}, err
		}
		support := filepath.Join(conf, "Godwit")
		return Folders{support, support, filepath.Join(cache, "Godwit"), filepath.Join(home, "Library", "Logs", "Godwit")}, nil
	}
	return unixFolders(env, conf, cache)
}

// unixFolders follows the XDG base directory specification.
func unixFolders(env Env, conf, cache string) (Folders, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Folders{}, fmt.Errorf("there is no folder for files; set GODWIT_HOME: %w", err)
	}
	base := func(name string, fallback ...string) string {
		if dir, ok := env(name); ok && filepath.IsAbs(dir) {
			return filepath.Join(dir, "godwit")
		}
		return filepath.Join(append(append([]string{home}, fallback...), "godwit")...)
	}
	return Folders{
		Config: filepath.Join(conf, "godwit"),
		Data:   base("XDG_DATA_HOME", ".local", "share"),
		Cache:  filepath.Join(cache, "godwit"),
		Log:    base("XDG_STATE_HOME", ".local", "state"),
	}, nil
}
