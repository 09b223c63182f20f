package jinja

import (
	"errors"
	"fmt"
)

// Classes of errors, for errors.Is. If the template itself refuses the input,
// the error is a *RaiseError instead.
var (
	ErrSyntax    = errors.New("template syntax")             // returned by Parse
	ErrUndefined = errors.New("undefined value")             // attribute, call or arithmetic on an undefined value
	ErrType      = errors.New("wrong type")                  // Python's TypeError
	ErrSecurity  = errors.New("not allowed in a template")   // an internal attribute, or a method that changes a value
	ErrRuntime   = errors.New("template fault")              // such as an unknown filter, a wrong value or a division by zero
	ErrLimit     = errors.New("template exceeds its limits") // limits on steps, depth, memory, output and ranges
)

// Error reports a fault of a template or of its input.
type Error struct {
	Kind error  // one of the sentinels above
	Line int    // line in the template, counted from 1; 0 if unknown
	Msg  string // message, in the words of Jinja2 or Python where those explain the fault
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%v: line %d: %s", e.Kind, e.Line, e.Msg)
	}
	return fmt.Sprintf("%v: %s", e.Kind, e.Msg)
}

// Unwrap returns the class of the error.
func (e *Error) Unwrap() error { return e.Kind }

// RaiseError reports that the template itself refused the input by calling
// raise_exception.
type RaiseError struct {
	Msg string // the template's message, unchanged
}

func (e *RaiseError) Error() string { return e.Msg }

func fail(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}

func typeErr(format string, args ...any) error { return fail(ErrType, format, args...) }

func valueErr(format string, args ...any) error { return fail(ErrRuntime, format, args...) }

func limitErr(format string, args ...any) error { return fail(ErrLimit, format, args...) }

// atLine sets the line of an error that has none yet.
func atLine(err error, line int) error {
	var e *Error
	if errors.As(err, &e) && e.Line == 0 {
		e.Line = line
	}
	return err
}
