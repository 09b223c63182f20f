//go:build !unix

package spent

import (
	"testing"
	"time"
)

var start = time.Now()

func used(testing.TB) time.Duration { return time.Since(start) }
