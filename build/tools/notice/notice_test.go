package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const mit = "MIT License\n\nCopyright (c) 2020 A. Author\nCopyright 2021 B. Author\n\nPermission is hereby granted, free of\ncharge, to any person\n"

func TestIdentify(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{mit, "MIT"},
		{"Redistribution and use in source and binary forms\n… Neither the name of", "BSD-3-Clause"},
		{"Redistribution and use in source and binary forms, with or without", "BSD-2-Clause"},
		{"Apache License\n Version 2.0, January 2004", "Apache-2.0"},
		{"GNU GENERAL PUBLIC LICENSE\n Permission is hereby granted, free of charge", ""},
		{"all rights reserved", ""},
	} {
		if got := identify(c.text); got != c.want {
			t.Errorf("identify(%.40q) = %q, want %q", c.text, got, c.want)
		}
	}
}

// TestTextsOnce checks that two works with the same licence text share it and
// keep their own copyright lines.
func TestTextsOnce(t *testing.T) {
	other := strings.ReplaceAll(mit, "Copyright (c) 2020 A. Author\nCopyright 2021 B. Author", "Copyright (c) 1999 C. Author")
	var out bytes.Buffer
	writeNotice(&out, []work{{"a.example/x", "v1", "MIT", []string{mit}}, {"b.example/y", "v2", "MIT", []string{other}}}, nil, nil)
	if n := strings.Count(out.String(), "Permission is hereby granted"); n != 1 {
		t.Errorf("the text stands there %d times, want once", n)
	}
	for _, holder := range []string{"2020 A. Author", "2021 B. Author", "1999 C. Author"} {
		if !strings.Contains(out.String(), holder) {
			t.Errorf("no line for %q", holder)
		}
	}
}

func TestNPM(t *testing.T) {
	dir := t.TempDir()
	write := func(licence string) {
		lock := `{"packages": {"": {"license": "MIT"},
			"node_modules/page": {"version": "1.2.3", "license": "` + licence + `"},
			"node_modules/tool": {"version": "4.5.6", "license": "GPL-3.0", "dev": true}}}`
		if err := os.WriteFile(filepath.Join(dir, "package-lock.json"), []byte(lock), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("MIT")
	got, complete, err := npmPackages(dir)
	if err != nil || complete || len(got) != 1 || got[0].name != "page" || got[0].licence != "MIT" {
		t.Errorf("got %+v, complete %v, %v; want page alone, incomplete", got, complete, err)
	}
	write("GPL-3.0")
	if _, _, err := npmPackages(dir); err == nil {
		t.Error("a licence that is not permitted passed")
	}
}

func TestFirstDifference(t *testing.T) {
	for _, c := range []struct {
		a, b   string
		line   int
		differ bool
	}{
		{"x\ny\n", "x\ny\n", 0, false},
		{"x\ny\n", "x\nz\n", 2, true},
		{"x", "x\ny", 2, true},
	} {
		if line, differ := firstDifference([]byte(c.a), []byte(c.b)); line != c.line || differ != c.differ {
			t.Errorf("%q, %q: %d %v, want %d %v", c.a, c.b, line, differ, c.line, c.differ)
		}
	}
}
