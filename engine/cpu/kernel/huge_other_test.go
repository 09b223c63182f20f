//go:build !linux

package kernel

import "testing"

func huge(_ testing.TB, n int) []byte { return make([]byte, n) }
