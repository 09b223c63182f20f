package wire

import "godwit/engine"

// Budget limits the reasoning of an answer, under the names that local servers
// share. Every endpoint with conversations accepts these names in addition to
// its own.
type Budget struct {
	ThinkingBudget   *int    `json:"thinking_budget_tokens" min:"-1" doc:"Maximum reasoning tokens; then the answer follows. -1: no limit."`
	ReasoningBudget  *int    `json:"reasoning_budget" min:"-1" doc:"Same as thinking_budget_tokens."`
	ReasoningTokens  *int    `json:"reasoning_budget_tokens" min:"-1" doc:"Same as thinking_budget_tokens."`
	ReasoningMessage *string `json:"reasoning_budget_message" most:"65536" doc:"Text inserted when the budget ends the reasoning."`
}

// Over returns the server's budget with the values that the request sets. nil means
// reasoning without a limit.
func (b *Budget) Over(server *engine.Budget) *engine.Budget {
	if *b == (Budget{}) {
		return server
	}
	out := engine.Budget{Tokens: -1}
	if server != nil {
		out = *server
	}
	for _, n := range []*int{b.ReasoningTokens, b.ReasoningBudget, b.ThinkingBudget} {
		if n != nil {
			out.Tokens = *n
		}
	}
	if b.ReasoningMessage != nil {
		out.Message = *b.ReasoningMessage
	}
	return &out
}
