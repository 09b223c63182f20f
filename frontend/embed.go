// Package frontend embeds the built page.
package frontend

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Dist is the built page, with index.html at its root. It is empty if the
// binary was built before the page.
func Dist() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic("frontend: " + err.Error()) // dist is a valid path
	}
	return sub
}
