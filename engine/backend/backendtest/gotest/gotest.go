// Package gotest lets go test run the conformance suite.
package gotest

import (
	"testing"

	"godwit/engine/backend/backendtest"
)

type test struct{ *testing.T }

// Of is the suite's view of a test.
func Of(t *testing.T) backendtest.T { return test{t} }

func (t test) Run(name string, f func(backendtest.T)) bool {
	return t.T.Run(name, func(sub *testing.T) { f(test{sub}) })
}

func (t test) Short() bool { return testing.Short() }
