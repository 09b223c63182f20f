//go:build !linux

package attn

import "testing"

func huge(_ testing.TB, n int) []byte { return make([]byte, n) }
