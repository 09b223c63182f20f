package engine_test

import (
	"go/scanner"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godwit/engine/chat"
	"godwit/engine/model"
)

// namesakes are folders that may use the name of an architecture for something else:
// a call or chat format, a tokenizer, a projector, a test file, or a family of models.
var namesakes = []string{"engine/arch", "engine/chat", "engine/tokenizer", "engine/fetch", "engine/vision", "engine/testmodel", "app/tune"}

// TestArchNames checks that adding an architecture touches one file: no source
// outside engine/arch compares with the name of an architecture.
func TestArchNames(t *testing.T) {
	archs := model.Archs()
	checked := 0
	for file, data := range readWritten(t) {
		dir := path.Dir(file)
		if path.Ext(file) != ".go" || isTest(file) || !strings.HasPrefix(file, "engine/") && !strings.HasPrefix(file, "app/") || slices.Contains(namesakes, dir) {
			continue
		}
		checked++
		var s scanner.Scanner
		fset := token.NewFileSet()
		at := fset.AddFile("", fset.Base(), len(data))
		s.Init(at, data, nil, 0)
		for {
			pos, tok, lit := s.Scan()
			if tok == token.EOF {
				break
			}
			if tok != token.STRING {
				continue
			}
			if text, err := strconv.Unquote(lit); err == nil && slices.Contains(archs, text) {
				t.Errorf("%s:%d names the architecture %q; its file in engine/arch says what is needed", file, at.Line(pos), text)
			}
		}
	}
	if checked < 100 || len(archs) < 50 {
		t.Fatalf("%d files, %d architectures", checked, len(archs))
	}
	for _, arch := range archs {
		if format := model.ChatFormat(arch); format != "" {
			if _, ok := chat.Builtin(format); !ok {
				t.Errorf("%s has the chat format %q, which is not one of %v", arch, format, chat.Builtins())
			}
		}
	}
}
