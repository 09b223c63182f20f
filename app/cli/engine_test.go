package cli

import (
	"bytes"
	"log/slog"
	"testing"

	"godwit/app/config"
)

// Settings without effect are reported when a command runs, but not each time the
// page previews settings.
func TestOptionsQuietly(t *testing.T) {
	var log bytes.Buffer
	r := &run{ctx: t.Context(), log: slog.New(slog.NewTextHandler(&log, nil))}
	c, layers := config.Default().Engine, 1
	c.Backend, c.GPULayers, c.KVAuto, c.KVPreset = "cpu", &layers, 3, "small"
	if _, err := r.optionsQuietly(&c, later); err != nil || log.Len() > 0 {
		t.Errorf("%v: %s", err, &log)
	}
	if _, err := r.options(&c, later); err != nil || bytes.Count(log.Bytes(), []byte("WARN")) != 2 {
		t.Errorf("%v: %s", err, &log)
	}
}
