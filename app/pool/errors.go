package pool

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of a pool. An error during a load is wrapped in a LoadError.
var (
	ErrBusy     = errors.New("the model is answering")      // the model cannot be unloaded now
	ErrStopped  = errors.New("stopped")                     // StopLoad stopped a load
	ErrStopping = errors.New("the server is shutting down") // Close was called
	ErrFixed    = errors.New("the server has one model")    // the model cannot be removed
)

// MissingError reports that no model has the name.
type MissingError struct{ Name string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("model %.256q not found; GET /v1/models lists the models, 'godwit pull' downloads more", e.Name)
}

// UnnamedError reports that a request does not name a model, and that the pool
// has several models or none.
type UnnamedError struct{ Names []string } // names of some models; the last may be "..."

func (e *UnnamedError) Error() string {
	if len(e.Names) == 0 {
		return "the library is empty; 'godwit pull demo' downloads a small model"
	}
	return "this field is required; the models are " + strings.Join(e.Names, ", ")
}

// LoadError reports why a model cannot be loaded.
type LoadError struct {
	Name string
	Err  error
	Held bool // whether models in use occupy the memory, so that a later load may succeed
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("model %s cannot be loaded: %v", e.Name, e.Err)
}

func (e *LoadError) Unwrap() error { return e.Err }
