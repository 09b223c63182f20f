package api

import (
	"net/http"

	"godwit/app/api/ollama"
	"godwit/app/api/wire"
	"godwit/app/hub"
)

// store shows the library to the endpoints that make models.
type store struct{ s *Server }

var _ ollama.Store = store{}

func (v store) Library() (*hub.Library, error) {
	lib := v.s.pool.Library()
	if lib == nil || v.s.pool.Only() {
		return nil, wire.Fault(http.StatusNotImplemented, wire.Unsupported, "this server has one model; start godwit serve without a model to make others")
	}
	return lib, nil
}

func (v store) Find(name string) (hub.Model, error) { return v.s.pool.Named(name) }

func (v store) Made() { v.s.changes.tell() }

// libraryRoutes are the endpoints that make models. What a browser sends has to be
// JSON, so that no page uploads files.
func (s *Server) libraryRoutes() []route {
	list := mount(ollama.LibraryRoutes(service{s}, store{s}))
	for i := range list {
		do := list[i].do
		list[i].do = func(w http.ResponseWriter, r *http.Request) error {
			if r.Method == http.MethodPost {
				if err := checkType(r); err != nil {
					return err
				}
			}
			return hubFault(do(w, r))
		}
	}
	return list
}
