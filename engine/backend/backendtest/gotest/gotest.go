// Package gotest runs the conformance suite under go test.
package gotest

import (
	"testing"

	"godwit/engine/backend/backendtest"
)

type test struct{ *testing.T }

// Of adapts a test to the suite's interface.
func Of(t *testing.T) backendtest.T { return test{t} }

func (t test) Run(name string, f func(backendtest.T)) bool {
	return t.T.Run(name, func(sub *testing.T) { f(test{sub}) })
}

func (t test) Short() bool { return testing.Short() }
