package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// find turns MODEL into a path.
func (r *run) find(model string) (string, error) {
	if _, err := os.Stat(model); err == nil {
		return model, nil
	}
	return "", fmt.Errorf("no file and no model of the library is called %q; 'godwit list' shows the library, 'godwit pull demo' fetches a small model", model)
}

// modelName is how a model is called in output.
func (r *run) modelName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), ".gguf")
}
