package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// npmTexts is the heading before the licence texts of the page.
const npmTexts = "Licence texts: npm packages"

// corpus lists the third-party texts in the quality lab (see
// engine/eval/corpus/README.md).
const corpus = `engine/eval/corpus/prose.txt: Isaac Newton, Opticks, 1730: public domain
engine/eval/corpus/dialogue.txt: Mark Twain, The Adventures of Tom Sawyer, 1876: public domain
engine/eval/corpus/code.txt: mptest.c of SQLite, whose author disclaims copyright: public domain
engine/eval/corpus/{korean,chinese,arabic}.txt: Universal Declaration of Human Rights, United Nations, 1948, translations published by its High Commissioner for Human Rights: free of copyright
`

// writeNotice writes the lists, and then each licence text once, below the works
// that it covers.
func writeNotice(w io.Writer, shipped, tested, packages []work) {
	fmt.Fprint(w, "Godwit\nCopyright (c) 2026 The Godwit authors. MIT licence, see LICENSE.\n\n",
		"Written by `make notice`; `make check` compares it with the modules.\n\n")
	writeList(w, "Go modules in the binaries", shipped)
	writeList(w, "Go modules used by tests only, not shipped", tested)
	writeList(w, "npm packages in the page", packages)
	heading(w, "Texts in the binaries")
	fmt.Fprintf(w, "%s\n", corpus)
	writeTexts(w, "Licence texts: Go modules", shipped)
	writeTexts(w, npmTexts, packages)
}

func heading(w io.Writer, title string) {
	fmt.Fprintf(w, "%s\n%s\n\n", title, strings.Repeat("=", len(title)))
}

func writeList(w io.Writer, title string, works []work) {
	if len(works) == 0 {
		return
	}
	heading(w, title)
	for _, x := range works {
		fmt.Fprintf(w, "%s: %s\n", strings.TrimSpace(x.name+" "+x.version), x.licence)
	}
	fmt.Fprintln(w)
}

// group is a licence text with the works under it.
type group struct {
	text  string
	works []string // "name version", then the copyright lines indented
}

// writeTexts writes every text once. Works whose texts differ only in the copyright
// lines share one.
func writeTexts(w io.Writer, title string, works []work) {
	if len(works) == 0 {
		return
	}
	heading(w, title)
	var groups []*group
	byText := map[string]*group{}
	for _, x := range works {
		for _, text := range x.texts {
			holders, body := splitCopyright(text)
			key := strings.ToLower(strings.Join(strings.Fields(body), " "))
			g := byText[key]
			if g == nil {
				g = &group{text: body}
				byText[key] = g
				groups = append(groups, g)
			}
			entry := strings.TrimSpace(x.name + " " + x.version)
			for _, h := range holders {
				entry += "\n    " + h
			}
			g.works = append(g.works, entry)
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return -cmp.Compare(len(a.works), len(b.works)) })
	for _, g := range groups {
		fmt.Fprintf(w, "%s\n\n%s\n\n%s\n\n", strings.Join(g.works, "\n"), strings.TrimSpace(g.text), strings.Repeat("-", 72))
	}
}

// splitCopyright removes the copyright lines from the top of a licence text. A
// long text such as the Apache licence stays whole, because its wording
// contains the word "copyright".
func splitCopyright(text string) (holders []string, body string) {
	lines := strings.Split(text, "\n")
	if len(lines) > 60 {
		return nil, text
	}
	var rest []string
	for _, line := range lines {
		line = strings.TrimRight(line, " \t")
		bare := strings.TrimSpace(line)
		lower := strings.ToLower(bare)
		isHolder := strings.HasPrefix(lower, "copyright ") && !strings.HasPrefix(lower, "copyright notice") &&
			!strings.HasPrefix(lower, "copyright holder")
		if isHolder {
			holders = append(holders, bare)
			continue
		}
		rest = append(rest, line)
	}
	return holders, strings.Join(rest, "\n")
}

// withoutNPMTexts removes the part of NOTICE that needs frontend/node_modules.
func withoutNPMTexts(notice []byte) []byte {
	cut, _, _ := bytes.Cut(notice, []byte(npmTexts+"\n"))
	return cut
}
