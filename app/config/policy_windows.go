package config

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// SystemPolicy returns the path of the policy file that always applies if it exists.
// It is empty if Windows does not name the folder, which no variable can move.
func SystemPolicy() string {
	dir, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "Godwit", "policy.toml")
}
