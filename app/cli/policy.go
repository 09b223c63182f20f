package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/alecthomas/kong"

	"godwit/app/config"
)

// standingPolicies applies the policy files that need no flag: the system's and the
// environment's.
func (r *run) standingPolicies() error {
	path := config.SystemPolicy()
	if _, err := os.Stat(path); path != "" && !errors.Is(err, fs.ErrNotExist) {
		if err := r.policy(path); err != nil {
			return err
		}
	}
	if path, _ := r.env("GODWIT_POLICY"); path != "" {
		return r.policy(path)
	}
	return nil
}

// givenPolicies applies the policy files of the command line.
func (r *run) givenPolicies(ctx *kong.Context) error {
	for _, p := range ctx.Path {
		if p.Flag == nil || p.Flag.Name != "policy" {
			continue
		}
		if err := r.policy(fmt.Sprint(ctx.FlagValue(p.Flag))); err != nil {
			return err
		}
	}
	return nil
}

// policy applies a policy file once. It reports the settings in config.toml that have
// no effect.
func (r *run) policy(path string) error {
	if r.policies[path] {
		return nil
	}
	if err := r.file.Lock(path); err != nil {
		return err
	}
	if r.policies == nil {
		r.policies = map[string]bool{}
	}
	r.policies[path] = true
	if p := r.file.Overruled(); p != nil && (r.overruled == nil || p.Error() != r.overruled.Error()) {
		fmt.Fprintln(r.err, "godwit:", p)
		r.overruled = p
	}
	return nil
}

// unlocked returns an error if a flag changes a setting that a policy file locks.
func (r *run) unlocked(ctx *kong.Context) error {
	if err := r.givenPolicies(ctx); err != nil {
		return err
	}
	for _, p := range ctx.Path {
		if p.Flag == nil || p.Resolved || !p.Flag.Target.IsValid() {
			continue
		}
		if err := r.file.Locked(p.Flag.Name, p.Flag.Target.Interface()); err != nil {
			return fmt.Errorf("--%s: %w", p.Flag.Name, err)
		}
	}
	return nil
}
