package cli

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestPortNotice gives the reason why a port was not opened.
func TestPortNotice(t *testing.T) {
	for want, cause := range map[string]error{
		"Port 80 needs administrator rights.":       syscall.EACCES,
		"Port 80 is taken by another program.":      syscall.EADDRINUSE,
		"Port 80 cannot be opened. For now the API": errors.New("no such device"),
	} {
		refused := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", cause)}
		if got := portNotice(80, 11712, refused); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "on port 11712.") {
			t.Errorf("%v: %q, want %q", cause, got, want)
		}
	}
}
