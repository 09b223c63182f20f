package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"godwit/app/config"
)

// spellings accepts arguments as other programs spell them. It converts help,
// --version and llama.cpp's single-dash flags of several letters. It removes
// -fa, which has no effect here. It also joins negative numbers to the flag
// before them, because the parser would read them as flags.
func (r *run) spellings(parser *kong.Kong, args []string) []string {
	wants := wantValue(parser.Model.Node, make(map[string]bool))
	long := make(map[string]string)
	for _, f := range config.Fields() {
		if f.Dash != "" {
			long["-"+f.Dash] = "--" + f.Flag
		}
	}
	if len(args) > 0 {
		switch args[0] {
		case "help":
			args = append(slices.Clone(args[1:]), "--help")
		case "--version", "-v", "-V":
			args = append([]string{"version"}, args[1:]...)
		}
	}
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case name == "-fa" || name == "--flash-attn":
			fmt.Fprintln(r.err, "godwit: attention is always fused; -fa has no effect")
			if !joined && i+1 < len(args) {
				switch args[i+1] {
				case "on", "off", "auto", "0", "1":
					i++
				}
			}
			continue
		case name == "--no-repack":
			arg = "--repack=off"
		case long[name] != "" && joined:
			arg = long[name] + "=" + value
		case long[name] != "":
			arg = long[name]
		}
		if !joined && i+1 < len(args) && wants[arg] && negative(args[i+1]) {
			if i++; strings.HasPrefix(arg, "--") {
				arg += "="
			}
			arg += args[i]
		}
		out = append(out, arg)
	}
	return out
}

// wantValue collects the flags, with their dashes, that take a value.
func wantValue(n *kong.Node, into map[string]bool) map[string]bool {
	for _, f := range n.Flags {
		if f.IsBool() {
			continue
		}
		into["--"+f.Name] = true
		if f.Short != 0 {
			into["-"+string(f.Short)] = true
		}
	}
	for _, child := range n.Children {
		wantValue(child, into)
	}
	return into
}

// negative reports whether an argument starts like a negative number.
func negative(arg string) bool {
	rest, ok := strings.CutPrefix(arg, "-")
	rest = strings.TrimPrefix(rest, ".")
	return ok && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}
