// Package grammar restricts generated text to a grammar.
//
// A [Grammar] comes from GBNF text ([ParseGBNF]), from a JSON schema ([FromSchema],
// [JSON]) or from both together ([Builder]). [Compile] combines it with the tokens
// of a vocabulary ([NewTokens], built once per model). A [State] belongs to one
// sequence. Mask returns the tokens that may come next, Accept takes the sampled
// token, and Done reports whether the text may end.
//
//	toks, err := grammar.NewTokens(vocab)
//	g, err := grammar.FromSchema(schema)
//	c, err := grammar.Compile(g, toks)
//	st := c.Start()
//	for {
//		err := st.Mask(mask)        // before sampling
//		tok := sampler.Sample(logits, mask)
//		err = st.Accept(tok)        // never fails for a token of the mask
//	}
//
// The automaton works on bytes, so tokens that contain half a character or several
// grammar elements need no special handling. Every reachable state can be completed
// to a match, because compiling removes rules that never end.
//
// # How masks are computed
//
// Rules are automata that call each other, so a state is a set of stacks. A stack
// is a chain of frames. A frame is a set of positions in rules that have the same
// frames below them. What a token does inside the top frame, and inside frames that
// it opens above the top frame, does not depend on the frames below. This part of a
// mask is therefore computed once per frame by a walk over the trie of all tokens,
// and cached. The walk also lists the trie nodes at which the top frame ends. For a
// given stack, only the subtrees below those nodes are walked. Frames and stacks
// are interned, so equal states share one pointer and their masks are cached as
// well.
package grammar

import "errors"

var (
	// ErrSyntax is wrapped by errors in GBNF text.
	ErrSyntax = errors.New("invalid grammar")
	// ErrSchema is wrapped by errors in JSON schemas.
	ErrSchema = errors.New("invalid schema")
	// ErrInvalid is wrapped by errors about documents that violate their schema.
	ErrInvalid = errors.New("the document is not valid")
	// ErrLimit is wrapped by errors about grammars that need too much work.
	ErrLimit = errors.New("grammar too complex")
	// ErrRejected is wrapped by Accept's error for a token that the grammar does
	// not allow.
	ErrRejected = errors.New("token outside the grammar")
	// ErrStuck is wrapped by Mask's error if no token of the vocabulary is allowed
	// and the text may not end.
	ErrStuck = errors.New("no token continues the grammar")
)
