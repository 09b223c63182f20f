//go:build !windows

package config

import "runtime"

// SystemPolicy returns the path of the policy file that always applies if it exists.
// Only an administrator can write there.
func SystemPolicy() string {
	if runtime.GOOS == "darwin" {
		return "/Library/Application Support/Godwit/policy.toml"
	}
	return "/etc/godwit/policy.toml"
}
