package engine_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// connects matches code that opens a connection or resolves a host name.
var connects = regexp.MustCompile(`\b(net\.(Dial\w*|Lookup\w+|Resolver|DefaultResolver)|http\.(Get|Post|Head|PostForm|Client|DefaultClient|Transport|DefaultTransport)|(unix|syscall)\.(Connect|Sendto))\b`)

// connecting maps the files that may open connections to the places that they connect to.
var connecting = map[string]string{
	"app/hub/client.go":      "the hub, when a model is pulled",
	"app/only.go":            "the window that runs already, on this machine",
	"app/cli/bench_serve.go": "its own server, on this machine",
	"app/api/listen.go":      "the socket file of --unix-socket, to see whether it is in use",
	"app/api/images.go":      "public addresses, for the pictures of requests, with --allow-image-urls",
}

// Only the documented commands use the network. Code that serves, loads or computes
// cannot open a connection.
func TestConnections(t *testing.T) {
	seen := map[string]bool{}
	for name, data := range readWritten(t) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "build/tools/") {
			continue
		}
		found := connects.Find(data)
		switch seen[name] = found != nil; {
		case found != nil && connecting[name] == "":
			t.Errorf("%s uses %s: only %v open connections", name, found, connecting)
		case found == nil && connecting[name] != "":
			t.Errorf("%s opens no connection any more, take it off the list", name)
		}
	}
	for name := range connecting {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
}
