package jinja

// expr is an expression of a template.
type expr interface {
	eval(st *state, sc *scope) (Value, error)
}

// stmt is a statement of a template.
type stmt interface {
	exec(st *state, sc *scope) (flow, error)
	at() int // line
}

// flow reports how a statement ended.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

type line int

func (l line) at() int { return int(l) }

// Expressions.
type (
	constExpr struct{ v Value }
	nameExpr  struct{ name string }
	listExpr  struct{ items []expr }
	tupleExpr struct{ items []expr }
	dictExpr  struct{ keys, vals []expr }

	attrExpr struct {
		obj  expr
		name string
	}
	itemExpr  struct{ obj, index expr }
	sliceExpr struct{ obj, lo, hi, step expr } // lo, hi and step are nil if absent

	callExpr struct {
		fn   expr
		args callArgs
	}
	filterExpr struct { // obj is nil in a filter block, which filters the block's text
		obj  expr
		name string
		args callArgs
	}
	testExpr struct {
		obj  expr
		name string
		args callArgs
	}

	notExpr  struct{ x expr }
	signExpr struct {
		op string // "+" or "-"
		x  expr
	}
	andExpr    struct{ x, y expr }
	orExpr     struct{ x, y expr }
	concatExpr struct{ items []expr }
	binExpr    struct {
		op   string
		x, y expr
	}
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
	}
	condExpr struct{ test, yes, no expr } // no is nil if absent
)

// callArgs are the arguments of a call, filter or test.
type callArgs struct {
	pos      []expr
	kwNames  []string
	kw       []expr
	dynPos   expr // *args
	dynNamed expr // **kwargs
}

// target is the left side of an assignment: a name, a namespace's attribute, or a
// tuple of targets.
type target struct {
	name, attr string
	tuple      []target // targets of a tuple; if set, name and attr are empty
}

// Statements.
type (
	dataStmt struct {
		line
		text string
	}
	printStmt struct {
		line
		x expr
	}
	doStmt struct {
		line
		x expr
	}
	ifStmt struct {
		line
		tests  []expr
		bodies [][]stmt
		other  []stmt
	}
	forStmt struct {
		line
		target    target
		iter      expr
		test      expr // nil if absent
		recursive bool
		body      []stmt
		other     []stmt

		undef, otherUndef []string // see symbols.go
	}
	flowStmt struct {
		line
		flow flow
	}
	setStmt struct {
		line
		target target
		x      expr
	}
	setBlockStmt struct {
		line
		target target
		filter expr // filter for the block's text; nil if absent
		body   []stmt
		undef  []string
	}
	filterStmt struct {
		line
		filter expr
		body   []stmt
		undef  []string
	}
	withStmt struct {
		line
		targets []target
		values  []expr
		body    []stmt
		undef   []string
	}
	scopeStmt struct { // scopeStmt is a named block, which sees only the top-level scope
		line
		body  []stmt
		undef []string
	}
	generationStmt struct {
		line
		def *macroDef
	}
	macroStmt struct {
		line
		def *macroDef
	}
	callStmt struct {
		line
		def  *macroDef
		call *callExpr
	}
)

// macroDef is a macro's or call block's definition.
type macroDef struct {
	name     string
	params   []string
	defaults []expr // defaults of the last len(defaults) parameters
	body     []stmt
	undef    []string // see symbols.go
	// whether the body reads these special names
	caller, kwargs, varargs bool
}
