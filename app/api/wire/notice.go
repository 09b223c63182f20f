package wire

import (
	"fmt"
	"strings"
)

// NoticeHeader says what was done differently from what a request asks for, one
// header a notice.
const NoticeHeader = "X-Godwit-Notice"

// maxNotices bounds the notices of a request.
const maxNotices = 16

// Notices are what a client should know about how its request was read.
type Notices []string

// Add adds a notice once. Client text in it has to be short.
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
