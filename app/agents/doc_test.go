// Package agents drives the coding agents of other makers against the real
// server. Their packages are pinned in build/agents; build/ci/agents.sh installs
// them and runs these tests, which have the build tag agents. The model is small
// and its answers are scripted, so that everything around it is exercised: the
// prompt with its tools, the call in the model's syntax, the result, the turn
// after.
package agents
