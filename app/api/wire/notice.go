package wire

import (
	"fmt"
	"strings"
)

// NoticeHeader describes a difference between the request and what was done. A
// response has one header per notice.
const NoticeHeader = "X-Godwit-Notice"

// maxNotices limits the number of notices in a response.
const maxNotices = 16

// Notices tell a client how its request was read.
type Notices []string

// Add adds a notice unless it was already added. Client text in it must be short.
func (n *Notices) Add(format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, fmt.Sprintf(format, args...))
	for _, have := range *n {
		if have == text {
			return
		}
	}
	if len(*n) < maxNotices {
		*n = append(*n, text)
	}
}
