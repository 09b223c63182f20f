// Arrows counts the dependencies between the files of a package that run
// against the best order of the files.
//
//	go run ./arrows -root ../.. app/api engine/kv
//	go run ./arrows -root ../.. -most 15 app/api   # fails above 15
//
// A file has an arrow to every other file that declares something it uses. A
// package can be read from top to bottom if its files have an order in which
// all arrows run down. The command counts the arrows that run up in the best
// order it finds.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", ".", "root of the module")
	most := flag.Int("most", -1, "fail above so many arrows in any of the packages; -1: do not")
	list := flag.Bool("list", false, "list the arrows that run up")
	flag.Parse()
	bad := false
	for _, dir := range flag.Args() {
		g, err := read(filepath.Join(*root, filepath.FromSlash(dir)))
		if err != nil {
			fmt.Fprintln(os.Stderr, "arrows:", err)
			os.Exit(1)
		}
		up := g.up(g.order())
		fmt.Printf("%s: %d files, %d arrows, %d against the order\n", dir, len(g.files), g.arrows(), len(up))
		if *list {
			for _, a := range up {
				fmt.Printf("\t%s uses %s: %s\n", g.files[a.from], g.files[a.to], strings.Join(g.uses[a], ", "))
			}
		}
		bad = bad || *most >= 0 && len(up) > *most
	}
	if bad {
		fmt.Fprintf(os.Stderr, "arrows: more than %d; run with -list to see them\n", *most)
		os.Exit(1)
	}
}

// arrow is a dependency between two files.
type arrow struct{ from, to int }

// graph holds the files of a package and the names that each file uses from
// another.
type graph struct {
	files []string
	uses  map[arrow][]string
}

// nothing is an importer that returns an empty package for every path. That is
// enough, because a file's uses of its own package are found without the
// others.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

// read parses the files of a package, except tests and files for other systems.
func read(dir string) (*graph, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	g := &graph{uses: map[arrow][]string{}}
	at := map[string]int{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		at[name] = len(g.files)
		g.files = append(g.files, filepath.Base(name))
		parsed = append(parsed, f)
	}
	if len(parsed) == 0 {
		return nil, fmt.Errorf("%s has no Go files", dir)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	conf := types.Config{Importer: nothing{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check(dir, fset, parsed, info) // all errors come from the empty packages
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg || !obj.Pos().IsValid() || !shared(pkg, obj) {
			continue
		}
		a := arrow{at[fset.Position(id.Pos()).Filename], at[fset.Position(obj.Pos()).Filename]}
		if a.from != a.to && !slices.Contains(g.uses[a], obj.Name()) {
			g.uses[a] = append(g.uses[a], obj.Name())
		}
	}
	for a := range g.uses {
		slices.Sort(g.uses[a])
	}
	return g, nil
}

// shared reports whether another file can use an object, which must be a
// package-level object, a method or a field.
func shared(pkg *types.Package, obj types.Object) bool {
	if obj.Parent() == pkg.Scope() {
		return true
	}
	switch o := obj.(type) {
	case *types.Func:
		return o.Signature().Recv() != nil
	case *types.Var:
		return o.IsField()
	}
	return false
}

func (g *graph) arrows() int { return len(g.uses) }

// order returns an order of the files with few upward arrows. It first places
// files that use many others and are used by few at the front, and then moves
// single files while that helps.
func (g *graph) order() []int {
	left := make([]int, len(g.files))
	for i := range left {
		left[i] = i
	}
	var first, last []int
	for len(left) > 0 {
		best, most, sink := 0, 0, -1
		for k, f := range left {
			out, in := 0, 0
			for a := range g.uses {
				switch {
				case a.from == f && slices.Contains(left, a.to):
					out++
				case a.to == f && slices.Contains(left, a.from):
					in++
				}
			}
			if out == 0 && sink < 0 {
				sink = k
			}
			if k == 0 || out-in > most {
				best, most = k, out-in
			}
		}
		if sink >= 0 {
			last = append(last, left[sink])
			left = slices.Delete(left, sink, sink+1)
			continue
		}
		first = append(first, left[best])
		left = slices.Delete(left, best, best+1)
	}
	slices.Reverse(last)
	return g.improve(append(first, last...))
}

// improve moves one file at a time to the position with the fewest upward arrows.
func (g *graph) improve(order []int) []int {
	for better := true; better; {
		better = false
		for i := range order {
			now := len(g.up(order))
			for to := range order {
				moved := slices.Delete(slices.Clone(order), i, i+1)
				moved = slices.Insert(moved, to, order[i])
				if n := len(g.up(moved)); n < now {
					order, now, better = moved, n, true
				}
			}
		}
	}
	return order
}

// up lists the arrows that run against an order.
func (g *graph) up(order []int) []arrow {
	place := make([]int, len(order))
	for i, f := range order {
		place[f] = i
	}
	var list []arrow
	for a := range g.uses {
		if place[a.from] > place[a.to] {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b arrow) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return a.to - b.to
	})
	return list
}
