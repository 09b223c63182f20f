package cli

import (
	"fmt"
	"strings"

	"godwit/app/config"
)

// spellings turns llama.cpp's single-dash flags of several letters into their
// long form, and takes out -fa, which has nothing to switch here.
func (r *run) spellings(args []string) []string {
	long := make(map[string]string)
	for _, f := range config.Fields() {
		if f.Dash != "" {
			long["-"+f.Dash] = "--" + f.Flag
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
			// A negative number would be taken for a flag.
			if i+1 < len(args) && strings.HasPrefix(args[i+1], "-") && len(args[i+1]) > 1 && args[i+1][1] >= '0' && args[i+1][1] <= '9' {
				arg += "=" + args[i+1]
				i++
			}
		}
		out = append(out, arg)
	}
	return out
}
